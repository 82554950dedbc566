// SPDX-License-Identifier: Apache-2.0
// Decides which service ports have tables of consistent selection.
#include "agent/plan/consistent_budget.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace lb::agent {

/// The number of ports, from the first one on, for which `max_tables` tables suffice.
ConsistentBudget::Grant ConsistentBudget::grant(const std::vector<std::size_t>& tables_of_ports,
                                                std::size_t max_tables) {
  Grant granted;
  for (const std::size_t tables : tables_of_ports) {
    if (tables > max_tables - granted.tables) {
      break;
    }
    granted.tables += tables;
    ++granted.ports;
  }
  return granted;
}

std::set<std::string> ConsistentBudget::ask(const std::string& service, std::int64_t created,
                                            std::vector<std::size_t> tables_of_ports, WorkBudget& work) {
  const Rank rank{created == 0 ? std::numeric_limits<std::int64_t>::max() : created, service};
  const auto known = ages_.find(service);
  if (known != ages_.end() && known->second == rank.first &&
      asks_.at(rank).tables_of_ports == tables_of_ports) {
    return {};
  }
  Before before;
  work.spend(1);
  if (known != ages_.end()) {
    withdraw({known->second, service}, before);
    ages_.erase(known);
  }
  if (grant(tables_of_ports, share()).tables > 0) {
    ages_.emplace(service, rank.first);
    enter(rank, std::move(tables_of_ports));
  }
  move_first_short(before, work);
  grant_rest(before, work);
  before.erase(service);
  std::set<std::string> changed;
  for (const auto& [name, ports] : before) {
    if (granted(name) != ports) {
      changed.insert(name);
    }
  }
  return changed;
}

void ConsistentBudget::withdraw(const Rank& rank, Before& before) {
  const auto at = asks_.find(rank);
  if (is_served(rank)) {
    served_ -= at->second.max.tables;
  } else {
    remove_short(at);
    if (from_the_rest_.erase(rank) > 0) {
      set_granted(at, 0, before);
    }
    if (at == first_short_) {
      ++first_short_;
    }
  }
  asks_.erase(at);
}

void ConsistentBudget::enter(const Rank& rank, std::vector<std::size_t> tables_of_ports) {
  const auto max = grant(tables_of_ports, share());
  const bool is_before = is_served(rank);
  const auto at = asks_.emplace(rank, Ask{std::move(tables_of_ports), max, max.ports}).first;
  if (is_before) {
    served_ += max.tables;
  } else {
    at->second.granted = 0;
    wait(at);
  }
}

/// Each step moves one service into or out of the fully granted ones.
void ConsistentBudget::move_first_short(Before& before, WorkBudget& work) {
  while (served_ > tables_) {
    --first_short_;
    served_ -= first_short_->second.max.tables;
    set_granted(first_short_, 0, before);
    wait(first_short_);
    work.spend(1);
  }
  while (first_short_ != asks_.end() && first_short_->second.max.tables <= tables_ - served_) {
    remove_short(first_short_);
    from_the_rest_.erase(first_short_->first);
    set_granted(first_short_, first_short_->second.max.ports, before);
    served_ += first_short_->second.max.tables;
    ++first_short_;
    work.spend(1);
  }
}

/// The first request that is not fully granted gets as many ports as fit. The rest is smaller than its next
/// port needs, so few others get a part of it.
void ConsistentBudget::grant_rest(Before& before, WorkBudget& work) {
  for (const auto& rank : std::exchange(from_the_rest_, {})) {
    set_granted(asks_.find(rank), 0, before);
  }
  std::size_t left = tables_ - served_;
  Rank after{std::numeric_limits<std::int64_t>::min(), ""};
  while (left > 0) {
    const Rank* next = nullptr;
    for (const auto& [tables, ranks] : short_) {
      if (tables > left) {
        break;
      }
      const auto found = ranks.upper_bound(after);
      if (found != ranks.end() && (next == nullptr || *found < *next)) {
        next = &*found;
      }
    }
    if (next == nullptr) {
      return;
    }
    const auto at = asks_.find(*next);
    const auto given = grant(at->second.tables_of_ports, std::min(left, share()));
    set_granted(at, given.ports, before);
    left -= given.tables;
    from_the_rest_.insert(after = *next);
    work.spend(1);
  }
}

void ConsistentBudget::set_granted(Asks::iterator at, std::size_t ports, Before& before) {
  before.try_emplace(at->first.second, at->second.granted);
  at->second.granted = ports;
}

void ConsistentBudget::remove_short(Asks::iterator at) {
  const auto same = short_.find(at->second.tables_of_ports.front());
  same->second.erase(at->first);
  if (same->second.empty()) {
    short_.erase(same);
  }
}

std::size_t ConsistentBudget::granted(const std::string& service) const {
  const auto age = ages_.find(service);
  return age == ages_.end() ? 0 : asks_.at({age->second, service}).granted;
}

}  // namespace lb::agent
