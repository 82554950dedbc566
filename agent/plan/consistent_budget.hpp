// Which service ports have tables of consistent selection, where not all can: each table has
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

namespace lb::agent {

/// Older Services come first, so that none loses its table to a newer one; none has more than a quarter of
/// all.
class ConsistentBudget {
 public:
  /// `tables`: how many there may be.
  explicit ConsistentBudget(std::size_t tables) : tables_(tables) {}

  /// In place of what the service asked for before: how many tables each of its ports takes, in their order;
  /// none: it asks for nothing. `created` in Unix seconds, 0 if unknown. Returns the other services that are
  /// granted more or less than before.
  std::set<std::string> ask(const std::string& service, std::int64_t created,
                            std::vector<std::size_t> tables_of_ports);

  /// How many of a service's ports have their tables, from the first one on.
  [[nodiscard]] std::size_t granted(const std::string& service) const;

 private:
  using Rank = std::pair<std::int64_t, std::string>;  ///< age and name
  struct Ask {
    std::vector<std::size_t> tables_of_ports;
    std::size_t granted = 0;
  };

  std::size_t tables_;
  std::map<Rank, Ask> asks_;
  std::map<std::string, std::int64_t> ages_;  ///< of those that ask
};

}  // namespace lb::agent
