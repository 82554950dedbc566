// SPDX-License-Identifier: Apache-2.0
// Reads the pinned maps when an agent starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "agent/tables/table_set.hpp"
#include "maps/map.hpp"

namespace lb::agent {

/// Numbers of pinned entries.
struct Adopted {
  std::size_t services = 0;
  std::size_t backends = 0;
  std::size_t frontends = 0;
};

/// Reads all maps and writes nothing. Entries that a killed agent left half done are completed or retired by
/// the first whole plan.
class Adoption {
 public:
  /// `tables` must be unused so far, and must outlive this.
  explicit Adoption(TableSet& tables);
  /// Call once. Fails if a map cannot be read.
  [[nodiscard]] maps::result<Adopted> run();

 private:
  [[nodiscard]] maps::error_code adopt_names();
  void adopt_frontends();
  void adopt_ranges();
  void adopt_backends();
  void adopt_sets();
  void reclaim();
  ServiceState& state_of(std::uint32_t number);

  TableSet& tables_;
  std::vector<bool> services_;                     ///< service numbers in use
  std::vector<bool> backends_;                     ///< backend ids in use
  std::map<std::uint32_t, ServiceState*> states_;  ///< of overlapping sets the smallest number keeps its own
  std::vector<std::uint32_t> retired_;             ///< numbers whose name is retired, or a duplicate
};

}  // namespace lb::agent
