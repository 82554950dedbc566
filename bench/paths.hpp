// The paths through the packet programs, each as packets that a test run can repeat. For bench/programs.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bench/mirror.hpp"
#include "bench/rounds.hpp"

namespace lb::bench {

/// One kind of packet, and the services that it is for.
struct Case {
  std::unique_ptr<Mirror> mirror;
  std::function<double()> batch;  ///< nanoseconds a packet; 0: does not count
  std::uint32_t batches = lb::bench::batches;
};

/// Where packets are seen, and for services of which sizes.
struct Place {
  std::uint32_t device;
  int family;
  test::Hook hook;
  std::uint32_t slots;
};

[[nodiscard]] const char* name_of(test::Hook hook);

[[nodiscard]] Case established(const Place& place);
/// A datagram that is the first of its second, and looks whether the backend still serves; single runs.
[[nodiscard]] Case looked_after(const Place& place);
[[nodiscard]] Case new_flows(const Place& place);
[[nodiscard]] Case unrelated(const Place& place);

/// All other ways. Those of single runs cannot be repeated: no packet becomes one that would be as new, or
/// the packet becomes an answer. Their figures hold the harness, and caches as a system call leaves them.
struct Path {
  const char* what;
  test::Hook hook;
  Case (*make)(const Place&);
};
[[nodiscard]] const std::vector<Path>& paths();

}  // namespace lb::bench
