// SPDX-License-Identifier: Apache-2.0
// Statistics of the tables for a scrape, from this agent's own state: the only map read is lb_services.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "agent/tables/retry_queue.hpp"
#include "agent/tables/snapshot.hpp"
#include "agent/tables/table_set.hpp"

namespace lb::agent {

/// Entries in use of lb_frontends, lb_services, lb_backends, lb_slots, lb_ranges and lb_addresses.
[[nodiscard]] std::vector<Fill> fills_of(const TableSet& tables);
[[nodiscard]] ExtentStats extents_of(const TableSet& tables);
/// The first `max_services` service ports by name that are planned or in the maps, and the number of the
/// others.
[[nodiscard]] std::pair<std::vector<ServiceStats>, std::uint64_t> services_of(const TableSet& tables,
                                                                              const RetryQueue& waiting,
                                                                              std::size_t max_services);

}  // namespace lb::agent
