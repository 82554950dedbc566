// Which service ports have tables of consistent selection.
#include "agent/plan/consistent_budget.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace lb::agent {
namespace {

constexpr std::size_t shares = 4;

struct Grant {
  std::size_t ports = 0;
  std::size_t tables = 0;
};

/// As many ports, from the first one on, as `most` tables are enough for.
Grant grant(const std::vector<std::size_t>& tables_of_ports, std::size_t most) {
  Grant granted;
  for (const std::size_t tables : tables_of_ports) {
    if (tables > most - granted.tables) break;
    granted.tables += tables;
    ++granted.ports;
  }
  return granted;
}

}  // namespace

std::set<std::string> ConsistentBudget::ask(const std::string& service, std::int64_t created,
                                            std::vector<std::size_t> tables_of_ports) {
  const auto known = ages_.find(service);
  if (known == ages_.end() && tables_of_ports.empty()) return {};
  if (known != ages_.end()) {
    asks_.erase({known->second, service});
    ages_.erase(known);
  }
  if (!tables_of_ports.empty()) {
    const auto age = created == 0 ? std::numeric_limits<std::int64_t>::max() : created;
    ages_.emplace(service, age);
    asks_.emplace(Rank{age, service}, Ask{std::move(tables_of_ports), 0});
  }
  std::set<std::string> changed;
  std::size_t left = tables_;
  for (auto& [rank, each] : asks_) {
    const auto granted = grant(each.tables_of_ports, std::min(left, tables_ / shares));
    left -= granted.tables;
    if (std::exchange(each.granted, granted.ports) != granted.ports) changed.insert(rank.second);
  }
  changed.erase(service);
  return changed;
}

std::size_t ConsistentBudget::granted(const std::string& service) const {
  const auto age = ages_.find(service);
  return age == ages_.end() ? 0 : asks_.at({age->second, service}).granted;
}

}  // namespace lb::agent
