// The clock of the programs (lb_clock of bpf/packet/stats.h), as the agent and the commands compute it.
#pragma once

#include <chrono>
#include <cstdint>

namespace lb::agent {

/// Seconds of lb_clock when CLOCK_MONOTONIC shows `monotonic`, on a kernel with `hertz` timer ticks a second;
/// right to within a second. The kernel's tick counter starts 300 s before 2^32 ticks (INITIAL_JIFFIES).
[[nodiscard]] std::uint32_t flow_clock(std::chrono::nanoseconds monotonic, std::uint32_t hertz);

/// The processor time that the calling thread has taken so far.
[[nodiscard]] std::chrono::nanoseconds thread_time();

/// Now; 0 where `hertz` is 0.
[[nodiscard]] std::uint32_t flow_clock_now(std::uint32_t hertz);

/// Since 1970.
[[nodiscard]] std::int64_t unix_nanoseconds(std::chrono::system_clock::time_point time);

}  // namespace lb::agent
