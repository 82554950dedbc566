// SPDX-License-Identifier: Apache-2.0
// How the packet benchmarks measure: on one CPU, in rounds of batches.
#pragma once

#include <sched.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace lb::bench {

constexpr std::uint32_t batches = 100;  // per round

inline void demand(bool met, const std::string& what) {
  if (!met) {
    throw std::runtime_error(what);
  }
}

/// Pins the thread to one processor, so that a batch finds its own caches, and other processes may use the
/// other processors.
inline void stay() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(::sched_getcpu()), &set);
  ::sched_setaffinity(0, sizeof(set), &set);
}

/// The mean of one round of `count` batches. `batch` returns nanoseconds per packet, or 0 if the batch does
/// not count.
template <class Batch>
double round_mean(Batch&& batch, std::uint32_t count = batches) {
  double sum = 0;
  std::uint32_t counted = 0;
  for (std::uint32_t at = 0; at < count; ++at) {
    const double nanoseconds = batch();
    sum += nanoseconds;
    counted += nanoseconds > 0 ? 1 : 0;
  }
  demand(counted > count / 2, "most batches did not go as planned");
  return sum / counted;
}

}  // namespace lb::bench
