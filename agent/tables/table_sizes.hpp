// How large the tables should be, from what did not fit, or from how little they hold.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "agent/options/config.hpp"
#include "agent/tables/retry_queue.hpp"
#include "agent/tables/table_set.hpp"

namespace lb::agent {

class TableSizes {
 public:
  using Table = std::uint32_t Sizes::*;

  /// `tables` must outlive this.
  explicit TableSizes(TableSet& tables) : tables_(tables) {}

  /// A table had no room. Counts from the first retry on: at the first try what goes in the same batch may
  /// still be in the way.
  void note_full(Table table);
  /// A retry begins: what is still refused is noted again.
  void note_retry();
  /// All is written.
  void note_success();

  /// Sizes with which what waits would fit: of tables that were full at least the double, a power of two, and
  /// no more than a map may have. Nothing: no table was full, or none may grow (SEM-81).
  [[nodiscard]] std::optional<Sizes> larger(const RetryQueue& waiting) const;
  /// Sizes with an lb_slots of four times what is in use, a power of two and no smaller than `least`.
  /// Nothing: that would be more than half of what it is.
  [[nodiscard]] std::optional<Sizes> smaller(std::uint32_t least) const;
  /// Moves sets to the first `limit` slots, about 65,000 slots of them at a time: to be called until it says
  /// that all are there. False for good where there is no room for one.
  [[nodiscard]] bool lower_slots(std::uint32_t limit);

 private:
  [[nodiscard]] Sizes now() const;
  [[nodiscard]] std::uint64_t entries(Table table, const RetryQueue& waiting) const;

  TableSet& tables_;
  std::vector<Table> full_;  ///< as of the last retry
  bool is_retry_ = false;    ///< there was one since all was written
};

}  // namespace lb::agent
