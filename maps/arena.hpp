// SPDX-License-Identifier: Apache-2.0
// Tracks free slots and numbers. Pure bookkeeping: agent/tables/id_reclaimer.hpp decides when something may
// be reused, and only then returns it here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace lb::maps {

/// A contiguous range of lb_slots; count 0 is none.
struct Extent {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  bool operator==(const Extent&) const = default;
};

/// First fit by address, neighbours merged at once. Bound (Robson 1977): with at most M slots in use in
/// extents of at most n, about M log2(n) slots always suffice; in practice a third more than M, plus the
/// largest extent, which is copied before the old one is released.
class ExtentArena {
 public:
  explicit ExtentArena(std::uint32_t limit);

  /// nullopt if no free range is long enough. Count 0 gives the empty extent.
  [[nodiscard]] std::optional<Extent> allocate(std::uint32_t count);
  /// Takes exactly these slots; false if one of them is taken or out of range.
  [[nodiscard]] bool claim(Extent extent);
  void release(Extent extent);

  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }
  [[nodiscard]] std::uint32_t available() const noexcept { return available_; }
  /// The length of the longest free range; checks all of them.
  [[nodiscard]] std::uint32_t largest() const noexcept;

 private:
  void cut(std::map<std::uint32_t, std::uint32_t>::iterator run, Extent extent);

  std::uint32_t limit_;
  std::uint32_t available_;
  std::map<std::uint32_t, std::uint32_t> free_;  ///< first slot to count; no two ranges are adjacent
};

/// Allocates the numbers 1 to limit - 1: released ones first, then the lowest never used one.
class IdPool {
 public:
  explicit IdPool(std::uint32_t limit);
  /// Marks all numbers as free except those in `used` (by index, at most `limit` of them).
  void adopt(const std::vector<bool>& used);

  [[nodiscard]] std::optional<std::uint32_t> allocate();
  void release(std::uint32_t id);

  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }
  [[nodiscard]] std::uint32_t available() const noexcept;

 private:
  std::uint32_t limit_;
  std::uint32_t next_ = 1;
  std::vector<std::uint32_t> returned_;
};

}  // namespace lb::maps
