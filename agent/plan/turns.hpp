// SPDX-License-Identifier: Apache-2.0
// Divides work into turns, if somebody continues it. Pure.
#pragma once

#include <functional>
#include <utility>

#include "agent/plan/work_budget.hpp"

namespace lb::agent {

class Turns {
 public:
  /// Without this call all work is done at once. `more` is called once when work is left.
  void divide(std::function<void()> more, TurnLimits limits) {
    more_ = std::move(more);
    limits_ = limits;
  }
  [[nodiscard]] bool are_divided() const noexcept { return more_ != nullptr; }
  [[nodiscard]] const TurnLimits& limits() const noexcept { return limits_; }
  [[nodiscard]] WorkBudget budget(std::uint64_t units) const {
    return WorkBudget(are_divided() ? units : WorkBudget::unlimited);
  }
  /// Another turn is needed.
  void ask() {
    if (more_ && !std::exchange(is_asked_, true)) {
      more_();
    }
  }
  void begun() noexcept { is_asked_ = false; }

  /// Objects and plans share turns: if objects used one up, the next one is for plans alone.
  [[nodiscard]] bool are_plans_next() noexcept { return std::exchange(are_plans_next_, false); }
  void plans_come_next(bool next) noexcept { are_plans_next_ = next; }

 private:
  std::function<void()> more_;
  TurnLimits limits_;
  bool is_asked_ = false;
  bool are_plans_next_ = false;
};

}  // namespace lb::agent
