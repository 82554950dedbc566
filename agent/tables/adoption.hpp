// Reads what is pinned when an agent starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "agent/tables/table_set.hpp"
#include "maps/map.hpp"

namespace lb::agent {

/// What was found pinned.
struct Adopted {
  std::size_t services = 0;
  std::size_t backends = 0;
  std::size_t frontends = 0;
};

/// Reads everything and writes nothing; what a killed agent left half done is either taken up by the first
/// whole plan or retired by it.
class Adoption {
 public:
  /// Of tables that nothing was done with yet, and that outlive this.
  explicit Adoption(TableSet& tables);
  /// To be called once. Errors are those of a map that cannot be read.
  [[nodiscard]] maps::result<Adopted> run();

 private:
  [[nodiscard]] maps::error_code adopt_names();
  void adopt_frontends();
  void adopt_ranges();
  void adopt_backends();
  void adopt_sets();
  void reclaim();
  ServiceState& state_of(std::uint32_t number);

  TableSet& tables_;
  std::vector<bool> services_;  ///< numbers that are not free
  std::vector<bool> backends_;  ///< ids that are not free
  std::unordered_map<std::uint32_t, ServiceState*> states_;
  std::vector<std::uint32_t> retired_;  ///< numbers without a living name
};

}  // namespace lb::agent
