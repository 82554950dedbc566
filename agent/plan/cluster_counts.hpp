// How many objects of each kind the model holds: plain values, for metrics and the log.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lb::agent {

/// Service ports whose traffic policy is Local and that have endpoints, but none on this node: by family,
/// IPv4 first.
struct NoLocal {
  std::array<std::size_t, 2> internal{};
  std::array<std::size_t, 2> external{};
};

/// What the model holds, for metrics.
struct ClusterCounts {
  std::size_t services = 0;
  std::size_t slices = 0;
  std::size_t endpoints = 0;
  std::size_t waiting = 0;         ///< services that ask for labels of Nodes that are not known yet
  std::size_t lost_frontends = 0;  ///< claims that a stronger one of another service defeats (SEM-82)
  std::uint64_t complaints = 0;    ///< reported since the start
  NoLocal no_local;
};

}  // namespace lb::agent
