// SPDX-License-Identifier: Apache-2.0
// Finds and repairs entries that other programs changed in the tables.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "agent/tables/table_set.hpp"
#include "maps/map.hpp"

namespace lb::agent {

/// Entries of one table that differed from their written values.
struct Repaired {
  std::string table;
  std::size_t entries = 0;   ///< that have their written values again
  std::size_t left = 0;      ///< damaged entries that could not be repaired
  maps::error_code failure;  ///< why not; with no entry left: why the table could not be checked
};

/// Reads every entry in use of lb_frontends, lb_addresses, lb_ranges, lb_services, lb_slots and lb_backends.
/// Returns one line for each table with differences.
[[nodiscard]] std::vector<Repaired> repair(TableSet& tables);

}  // namespace lb::agent
