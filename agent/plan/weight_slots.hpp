// SPDX-License-Identifier: Apache-2.0
// How many slots of a set each weight gets. Pure.
#pragma once

#include <array>
#include <cstdint>

#include "agent/plan/backends.hpp"
#include "maps/abi/abi.h"

namespace lb::agent {

/// A backend's share of the slots is its share of the weights, as exactly as the budget of a set allows: few
/// backends have as many slots as their weights, without the common divisor (choice I). Beyond the budget the
/// heaviest backend gets fewer, the others in proportion, and none less than one.
class WeightSlots {
 public:
  /// The budget: sets of up to 40 backends are always exact, and large ones have eight levels of weight.
  static constexpr std::uint64_t small_set = 4096;
  static constexpr std::uint64_t slots_per_backend = 8;

  WeightSlots(const BackendList& backends, lb_scope scope);
  /// At most so many slots, without a look at each backend.
  [[nodiscard]] static std::uint64_t most(const Members& members) noexcept;

  /// Slots of a backend with this weight, which is one of the set's.
  [[nodiscard]] unsigned of(std::uint8_t weight) const noexcept { return slots_.at(weight); }
  /// Slots of the set.
  [[nodiscard]] std::uint64_t all() const noexcept { return all_; }
  /// Whether each backend has one slot.
  [[nodiscard]] bool are_equal() const noexcept { return are_equal_; }
  /// By how many percent of it a backend's share of the traffic differs from its share of the weights, at
  /// most; rounded up, 255: that much or more.
  [[nodiscard]] std::uint8_t error_percent() const noexcept { return error_percent_; }

 private:
  using Counts = std::array<std::uint32_t, 256>;  ///< numbers of backends, by weight
  void choose(const Counts& counts, const Members& members);

  std::array<std::uint8_t, 256> slots_{};
  std::uint64_t all_ = 0;
  bool are_equal_ = true;
  std::uint8_t error_percent_ = 0;
};

}  // namespace lb::agent
