// Which service ports get a table of consistent selection, where not all can: each table takes
// --consistent-slots slots on every node, and an object may have 4,096 ports. Pure, and the same on every
// node that has the same Services.
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

/// Older Services come first, so that none loses its table to a newer one; none has more than a quarter of
/// all. A question costs the logarithm of how many ask, for itself and for each service whose grant changes.
class ConsistentBudget {
 public:
  /// `tables`: how many there may be.
  explicit ConsistentBudget(std::size_t tables) : tables_(tables) {}

  /// In place of what the service asked for before: how many tables each of its ports takes, in their order;
  /// none: it asks for nothing. `created` in Unix seconds, 0 if unknown. Returns the other services that are
  /// granted more or less than before. Spends a unit for each service that it looks at.
  std::set<std::string> ask(const std::string& service, std::int64_t created,
                            std::vector<std::size_t> tables_of_ports, WorkBudget& work);

  /// How many of a service's ports have their tables, from the first one on.
  [[nodiscard]] std::size_t granted(const std::string& service) const;

 private:
  using Rank = std::pair<std::int64_t, std::string>;  ///< age and name
  struct Grant {
    std::size_t ports = 0;
    std::size_t tables = 0;
  };
  struct Ask {
    std::vector<std::size_t> tables_of_ports;
    Grant most;               ///< were it alone
    std::size_t granted = 0;  ///< ports
  };
  using Asks = std::map<Rank, Ask>;
  /// What each was granted whose grant may have changed.
  using Before = std::map<std::string, std::size_t>;

  static Grant grant(const std::vector<std::size_t>& tables_of_ports, std::size_t most);
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
  Asks asks_;                                 ///< those for which there would be a table, were they alone
  std::map<std::string, std::int64_t> ages_;  ///< of these
  /// All before it have what they may have; it and those after it have to do with the rest, which is less
  /// than it asks for.
  Asks::iterator first_short_ = asks_.end();
  std::size_t served_ = 0;                       ///< tables of those before it
  std::map<std::size_t, std::set<Rank>> short_;  ///< it and those after it, by the tables of their first port
  std::set<Rank> from_the_rest_;                 ///< of these, those that were granted some
};

}  // namespace lb::agent
