// What others wrote into the tables is found and put right.
#include "agent/tables.hpp"

namespace lb::agent {
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
  return all;
}

}  // namespace lb::agent
