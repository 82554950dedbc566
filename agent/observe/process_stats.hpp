// SPDX-License-Identifier: Apache-2.0
// Metrics of this process from /proc, as every Prometheus client exports them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lb::agent {

struct ProcessStats {
  double cpu_seconds = 0;  ///< user and kernel mode
  double start_time = 0;   ///< Unix seconds
  std::uint64_t resident_bytes = 0;
  std::uint64_t virtual_bytes = 0;
  std::uint64_t open_descriptors = 0;
  std::uint64_t max_descriptors = 0;  ///< the soft limit
};

/// Reads the statistics; nullopt if /proc below `root` does not have them.
[[nodiscard]] std::optional<ProcessStats> own_process(const std::string& root = "");

}  // namespace lb::agent
