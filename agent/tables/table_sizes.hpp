// SPDX-License-Identifier: Apache-2.0
// Decides the table sizes, from what did not fit or how little the tables contain.
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

  /// Notes that a table was full. Counts from the first retry on: at the first attempt, entries that the same
  /// batch removes may still occupy room.
  void note_full(Table table);
  /// Call when a retry begins; tables that are still full are noted again.
  void note_retry();
  /// Call when everything is written.
  void note_success();

  /// Sizes at which the waiting plans would fit: for full tables at least the double, a power of two, at most
  /// the largest possible map. nullopt if no table was full, or none may grow (SEM-81).
  [[nodiscard]] std::optional<Sizes> larger(const RetryQueue& waiting) const;
  /// Sizes with an lb_slots of four times the slots in use, a power of two, at least `min_slots`. nullopt if
  /// that is more than half of the present size.
  [[nodiscard]] std::optional<Sizes> smaller(std::uint32_t min_slots) const;
  /// Moves sets to the first `limit` slots, about 65,000 slots per call: call it until it returns true, when
  /// all are there. Stays false if a set does not fit.
  [[nodiscard]] bool lower_slots(std::uint32_t limit);

 private:
  [[nodiscard]] Sizes now() const;
  [[nodiscard]] std::uint64_t entries(Table table, const RetryQueue& waiting) const;

  TableSet& tables_;
  std::vector<Table> full_;  ///< tables that were full at the last retry
  bool is_retry_ = false;    ///< a retry happened since everything was written
};

}  // namespace lb::agent
