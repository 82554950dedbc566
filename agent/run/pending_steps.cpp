// SPDX-License-Identifier: Apache-2.0
#include "agent/run/pending_steps.hpp"

#include <bit>
#include <utility>

namespace lb::agent {
namespace {

constexpr std::uint32_t bit_of(Step step) { return 1U << static_cast<unsigned>(step); }

static_assert(static_cast<unsigned>(Step::reports) < 32);

}  // namespace

void PendingSteps::mark(std::initializer_list<Step> steps) {
  for (const auto step : steps) {
    marked_ |= bit_of(step);
  }
  if (marked_ != 0 && !std::exchange(is_scheduled_, true)) {
    schedule_();
  }
}

std::optional<Step> PendingSteps::first() const {
  return marked_ == 0 ? std::nullopt : std::optional(static_cast<Step>(std::countr_zero(marked_)));
}

void PendingSteps::pass(const std::function<void(Step)>& act) {
  std::optional<Step> last;
  for (auto step = first(); step && (!last || *step > *last); step = first()) {
    marked_ &= ~bit_of(*step);
    act(*step);
    last = step;
  }
  is_scheduled_ = false;
  mark({});  // schedule the remaining steps
}

}  // namespace lb::agent
