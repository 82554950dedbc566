// SPDX-License-Identifier: Apache-2.0
// The clock of the programs (lb_clock of bpf/packet/stats.h), as computed by the agent and the commands.
#pragma once

#include <chrono>
#include <cstdint>

namespace lb::agent {

/// Seconds of lb_clock at CLOCK_MONOTONIC `monotonic`, on a kernel with `hertz` timer ticks per second; exact
/// to within a second. The kernel's tick counter starts 300 s before 2^32 ticks (INITIAL_JIFFIES).
[[nodiscard]] std::uint32_t flow_clock(std::chrono::nanoseconds monotonic, std::uint32_t hertz);

/// The processor time used by the calling thread so far.
[[nodiscard]] std::chrono::nanoseconds thread_time();

/// The present lb_clock; 0 if `hertz` is 0.
[[nodiscard]] std::uint32_t flow_clock_now(std::uint32_t hertz);

/// Nanoseconds since 1970.
[[nodiscard]] std::int64_t unix_nanoseconds(std::chrono::system_clock::time_point time);

}  // namespace lb::agent
