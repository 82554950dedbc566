// SPDX-License-Identifier: Apache-2.0
// Finds and repairs entries that other programs changed in the tables.
#include "agent/tables/repair.hpp"

#include <utility>

namespace lb::agent {
using maps::error_code;

namespace {

template <class Table>
void repair_table(const char* name, Table& table, std::vector<Repaired>& all) {
  const auto repaired = table.repair();
  if (!repaired) {
    all.push_back({name, 0, 0, repaired.error()});
  } else if (*repaired > 0) {
    all.push_back({name, *repaired, 0, {}});
  }
}

/// Damage of the arrays.
struct ArrayDamage {
  Damage repaired;
  Damage left;  ///< because a table had no room
};

// Treats the state like another agent's: reads it, keeps correct entries, writes the rest to new entries, and
// publishes them by one store. A service that was never published cannot be damaged.
void repair_port(TableSet& tables, ServiceState& state, ArrayDamage& all) {
  if (!state.plan) {
    return;
  }
  const auto damage = tables.publisher.damage(state);
  if (!damage.any()) {
    return;
  }
  const auto plan = std::exchange(state.plan, nullptr);
  if (tables.publisher.publish(state, plan) == Shortage::none) {
    tables.note_change(state.key);
    all.repaired += damage;
  } else {
    state.plan = plan;
    all.left += damage;
  }
}

}  // namespace

std::vector<Repaired> repair(TableSet& tables) {
  std::vector<Repaired> all;
  repair_table("lb_frontends", tables.frontends, all);
  repair_table("lb_addresses", tables.addresses, all);
  repair_table("lb_ranges", tables.ranges, all);
  ArrayDamage damage;
  for (const auto& [service, ports] : tables.services.all()) {
    for (const auto& [key, state] : ports) {
      repair_port(tables, *state, damage);
    }
  }
  tables.reclaimer.flush();
  const auto add = [&](const char* name, std::size_t Damage::* table) {
    const auto left = damage.left.*table;
    const auto failure = left == 0 ? error_code() : make_error_code(boost::system::errc::no_space_on_device);
    if (damage.repaired.*table + left > 0) {
      all.push_back({name, damage.repaired.*table, left, failure});
    }
  };
  add("lb_services", &Damage::services);
  add("lb_slots", &Damage::slots);
  add("lb_backends", &Damage::backends);
  return all;
}

}  // namespace lb::agent
