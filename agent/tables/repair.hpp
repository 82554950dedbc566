// Finds and repairs what others wrote into the tables.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "agent/tables/table_set.hpp"
#include "maps/map.hpp"

namespace lb::agent {

/// Entries of one table that were not as they were written.
struct Repaired {
  std::string table;
  std::size_t entries = 0;
  maps::error_code failure;  ///< why not all of them are right now
};

/// Reads every entry in use of lb_frontends, lb_addresses, lb_ranges, lb_services, lb_slots and lb_backends.
/// One line for each table where something was wrong.
[[nodiscard]] std::vector<Repaired> repair(TableSet& tables);

}  // namespace lb::agent
