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
    all.push_back({name, 0, repaired.error()});
  } else if (*repaired > 0) {
    all.push_back({name, *repaired, {}});
  }
}

// Treats the state like another agent's: reads it, keeps correct entries, writes the rest to new entries, and
// publishes them by one store. A service that was never published cannot be damaged.
Damage repair_port(Publisher& publisher, ServiceState& state, Shortage& shortage) {
  if (!state.plan) return {};
  const auto damage = publisher.damage(state);
  if (!damage.any()) return damage;
  const auto plan = std::exchange(state.plan, nullptr);
  if (const auto lack = publisher.publish(state, plan); lack != Shortage::none) {
    state.plan = plan;
    shortage = lack;
  }
  return damage;
}

}  // namespace

std::vector<Repaired> repair(TableSet& tables) {
  std::vector<Repaired> all;
  repair_table("lb_frontends", tables.frontends, all);
  repair_table("lb_addresses", tables.addresses, all);
  repair_table("lb_ranges", tables.ranges, all);
  Damage damage;
  Shortage shortage = Shortage::none;
  for (const auto& [service, ports] : tables.services.all()) {
    for (const auto& [key, state] : ports) damage += repair_port(tables.publisher, *state, shortage);
  }
  tables.reclaimer.flush();
  const auto failure =
      shortage == Shortage::none ? error_code() : make_error_code(boost::system::errc::no_space_on_device);
  for (const auto& [table, entries] :
       {std::pair("lb_services", damage.services), std::pair("lb_slots", damage.slots),
        std::pair("lb_backends", damage.backends)}) {
    if (entries > 0) all.push_back({table, entries, failure});
  }
  return all;
}

}  // namespace lb::agent
