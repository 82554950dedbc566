// SPDX-License-Identifier: Apache-2.0
// Limits the work that is done before other handlers run. Counted, not timed: equal on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace lb::agent {

/// A unit is the planning of about one endpoint or one frontend: a third of a microsecond on a machine of
/// 2020.
class WorkBudget {
 public:
  static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
  explicit WorkBudget(std::uint64_t max_units) : is_limited_(max_units != unlimited), left_(max_units) {}

  void spend(std::uint64_t units) noexcept {
    spent_ += units;
    if (is_limited_) {
      left_ -= units < left_ ? units : left_;
    }
  }
  [[nodiscard]] bool is_over() const noexcept { return left_ == 0; }
  [[nodiscard]] bool is_limited() const noexcept { return is_limited_; }
  [[nodiscard]] std::uint64_t spent() const noexcept { return spent_; }

 private:
  bool is_limited_;
  std::uint64_t left_;
  std::uint64_t spent_ = 0;
};

/// Limits of one turn, two to three milliseconds each.
struct TurnLimits {
  std::uint64_t service = 8192;  ///< one service
  std::uint64_t turn = 8192;     ///< all services, besides one that needs several turns
  std::size_t first = 1024;      ///< services of the first batch reported ahead, besides those
};

}  // namespace lb::agent
