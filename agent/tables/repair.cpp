// What others wrote into the tables is found and put right.
#include <utility>

#include "agent/tables/tables.hpp"

namespace lb::agent {
using maps::error_code;

namespace {

template <class Mirror>
void repair_table(const char* table, Mirror& mirror, std::vector<Tables::Repaired>& all) {
  const auto repaired = mirror.repair();
  if (!repaired) {
    all.push_back({table, 0, repaired.error()});
  } else if (*repaired > 0) {
    all.push_back({table, *repaired, {}});
  }
}

}  // namespace

std::vector<Tables::Repaired> Tables::repair() {
  std::vector<Repaired> all;
  if (!started_) return all;  // what is there is the last agent's
  repair_table("lb_frontends", frontends_, all);
  repair_table("lb_addresses", addresses_, all);
  repair_table("lb_ranges", ranges_, all);
  Damage damage;
  Shortage shortage = Shortage::none;
  for (const auto& [service, ports] : services_) {
    for (const auto& [key, state] : ports) damage += repair_port(*state, shortage);
  }
  reclaimer_.flush();
  const auto failure =
      shortage == Shortage::none ? error_code() : make_error_code(boost::system::errc::no_space_on_device);
  for (const auto& [table, entries] :
       {std::pair("lb_services", damage.services), std::pair("lb_slots", damage.slots),
        std::pair("lb_backends", damage.backends)}) {
    if (entries > 0) all.push_back({table, entries, failure});
  }
  return all;
}

// As after another agent: what is there is read, what is right of it stays, and the rest is made beside it
// and shown by one store. A service that was never published has nothing that could be damaged.
Damage Tables::repair_port(ServiceState& state, Shortage& shortage) {
  if (!state.plan) return {};
  const auto damage = publisher_.damage(state);
  if (!damage.any()) return damage;
  const auto plan = std::exchange(state.plan, nullptr);
  if (const auto lack = publisher_.publish(state, plan); lack != Shortage::none) {
    state.plan = plan;
    shortage = lack;
  }
  return damage;
}

}  // namespace lb::agent
