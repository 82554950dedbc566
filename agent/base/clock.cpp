// SPDX-License-Identifier: Apache-2.0
// Derives the programs' clock from the kernel's monotonic clock.
#include "agent/base/clock.hpp"

#include <ctime>

namespace lb::agent {
namespace {

std::chrono::nanoseconds time_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

std::uint32_t flow_clock(std::chrono::nanoseconds monotonic, std::uint32_t hertz) {
  constexpr std::uint64_t second = 1'000'000'000;
  const std::uint64_t start = (std::uint64_t{1} << 32) - (300 * std::uint64_t{hertz});
  const auto passed = static_cast<std::uint64_t>(monotonic.count());
  const std::uint64_t ticks = start + (passed / second * hertz) + (passed % second * hertz / second);
  const std::uint64_t factor = (std::uint64_t{1} << 32) / hertz;  // lb_config.clock_factor
  return static_cast<std::uint32_t>(ticks * factor >> 32);
}

std::uint32_t flow_clock_now(std::uint32_t hertz) {
  return hertz == 0 ? 0 : flow_clock(time_of(CLOCK_MONOTONIC), hertz);
}

std::chrono::nanoseconds thread_time() { return time_of(CLOCK_THREAD_CPUTIME_ID); }

std::int64_t unix_nanoseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace lb::agent
