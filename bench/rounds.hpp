// How the benches of packets measure: on one processor, in rounds of batches, and by their medians.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace lb::bench {

constexpr std::uint32_t batches = 100;  // of one round

inline void demand(bool met, const std::string& what) {
  if (!met) throw std::runtime_error(what);
}

/// The thread stays on one processor, so that a batch meets its own caches, and what else runs may have the
/// others.
inline void stay() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(::sched_getcpu()), &set);
  ::sched_setaffinity(0, sizeof(set), &set);
}

inline double median(std::vector<double> values) {
  demand(!values.empty(), "no batch counted");
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// Mean of one round. `batch` returns nanoseconds a packet, or 0 where the batch does not count.
template <class Batch>
double round_mean(Batch&& batch) {
  double sum = 0;
  int counted = 0;
  for (std::uint32_t at = 0; at < batches; ++at) {
    const double nanoseconds = batch();
    sum += nanoseconds;
    counted += nanoseconds > 0 ? 1 : 0;
  }
  demand(counted > static_cast<int>(batches) / 2, "most batches did not go as planned");
  return sum / counted;
}

}  // namespace lb::bench
