// SPDX-License-Identifier: Apache-2.0
// The paths through the packet programs, each as packets that a test run can repeat. For bench/programs.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bench/mirror.hpp"
#include "bench/rounds.hpp"

namespace lb::bench {

/// A kind of packet, and the services for it.
struct Case {
  std::unique_ptr<Mirror> mirror;
  std::function<double()> batch;  ///< returns nanoseconds per packet; 0: the batch does not count
  std::uint32_t batches = lb::bench::batches;
};

/// The hook and device that see the packets, and the services' size.
struct Place {
  std::uint32_t device;
  int family;
  test::Hook hook;
  std::uint32_t slots;
};

[[nodiscard]] const char* name_of(test::Hook hook);

[[nodiscard]] Case established(const Place& place);
/// A flow's first datagram of the second, for which the program checks whether the backend still serves;
/// single runs.
[[nodiscard]] Case looked_after(const Place& place);
[[nodiscard]] Case new_flows(const Place& place);
[[nodiscard]] Case unrelated(const Place& place);

/// All other paths. Single runs cannot be repeated: no rewritten packet would be as new, or the packet
/// becomes a reply. Their figures include the harness, and the caches' state after a system call.
struct Path {
  const char* what;
  test::Hook hook;
  Case (*make)(const Place&);
};
[[nodiscard]] const std::vector<Path>& paths();

}  // namespace lb::bench
