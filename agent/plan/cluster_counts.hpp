// SPDX-License-Identifier: Apache-2.0
// Numbers of objects in the model: plain values, for metrics and the log.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lb::agent {

/// Service ports with traffic policy Local that have endpoints, but none on this node: by family, IPv4 first.
struct NoLocal {
  std::array<std::size_t, 2> internal{};
  std::array<std::size_t, 2> external{};
};

/// Counts of the model, for metrics.
struct ClusterCounts {
  std::size_t services = 0;
  std::size_t slices = 0;
  std::size_t endpoints = 0;
  std::size_t waiting = 0;         ///< services that need labels of Nodes that are unknown so far
  std::size_t lost_frontends = 0;  ///< claims that lose to a stronger one of another service (SEM-82)
  std::uint64_t complaints = 0;    ///< complaints reported since the agent started
  NoLocal no_local;
};

}  // namespace lb::agent
