// SPDX-License-Identifier: Apache-2.0
// Decides which service ports get a table of consistent selection if not all can: each table takes
// --consistent-slots slots on every node, and an object may have 4,096 ports. Pure, and equal on all nodes
// with the same Services.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/plan/work_budget.hpp"

namespace lb::agent {

/// Older Services come first, so that none loses its table to a newer one; no Service gets more than a
/// quarter of all tables. A request costs the logarithm of the number of requests, for itself and for each
/// service whose grant changes.
class ConsistentBudget {
 public:
  /// `tables`: the total number of tables.
  explicit ConsistentBudget(std::size_t tables) : tables_(tables) {}

  /// Replaces the service's request: the number of tables for each of its ports, in their order; empty: no
  /// request. `created` in Unix seconds, 0 if unknown. Returns the other services whose grant has changed.
  /// Spends a unit for each service checked.
  std::set<std::string> ask(const std::string& service, std::int64_t created,
                            std::vector<std::size_t> tables_of_ports, WorkBudget& work);

  /// The number of a service's ports that have their tables, counted from the first port.
  [[nodiscard]] std::size_t granted(const std::string& service) const;

 private:
  using Rank = std::pair<std::int64_t, std::string>;  ///< creation time and name
  struct Grant {
    std::size_t ports = 0;
    std::size_t tables = 0;
  };
  struct Ask {
    std::vector<std::size_t> tables_of_ports;
    Grant max;                ///< the grant if it were alone
    std::size_t granted = 0;  ///< ports
  };
  using Asks = std::map<Rank, Ask>;
  /// Earlier grants of services whose grant may have changed.
  using Before = std::map<std::string, std::size_t>;

  static Grant grant(const std::vector<std::size_t>& tables_of_ports, std::size_t max_tables);
  [[nodiscard]] std::size_t share() const noexcept { return tables_ / 4; }
  [[nodiscard]] bool is_served(const Rank& rank) const {
    return first_short_ == asks_.end() || rank < first_short_->first;
  }
  void withdraw(const Rank& rank, Before& before);
  void enter(const Rank& rank, std::vector<std::size_t> tables_of_ports);
  void move_first_short(Before& before, WorkBudget& work);
  void grant_rest(Before& before, WorkBudget& work);
  void set_granted(Asks::iterator at, std::size_t ports, Before& before);
  void wait(Asks::iterator at) { short_[at->second.tables_of_ports.front()].insert(at->first); }
  void remove_short(Asks::iterator at);

  std::size_t tables_;
  Asks asks_;                                 ///< requests that could be granted if they were alone
  std::map<std::string, std::int64_t> ages_;  ///< creation times of these services
  /// The first request that is not fully granted: all before it are; it and those after it share the
  /// remaining tables, which are fewer than it requests.
  Asks::iterator first_short_ = asks_.end();
  std::size_t served_ = 0;                       ///< tables granted before it
  std::map<std::size_t, std::set<Rank>> short_;  ///< it and those after it, by the tables of their first port
  std::set<Rank> from_the_rest_;                 ///< those of short_ with a partial grant
};

}  // namespace lb::agent
