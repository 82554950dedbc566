// SPDX-License-Identifier: Apache-2.0
// How many slots of a set each weight gets.
#include "agent/plan/weight_slots.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lb::agent {
namespace {

/// A weight of a set, and how many backends have it.
struct Level {
  unsigned weight = 0;
  std::uint64_t count = 0;
};

/// Slots of a weight if the heaviest weight has `most`.
std::uint64_t slots_of(unsigned weight, unsigned heaviest, unsigned most) {
  return std::max<std::uint64_t>((2ULL * weight * most + heaviest) / (2ULL * heaviest), 1);
}

std::uint64_t slots_of(const std::vector<Level>& levels, unsigned most) {
  std::uint64_t slots = 0;
  for (const auto& [weight, count] : levels) {
    slots += count * slots_of(weight, levels.back().weight, most);
  }
  return slots;
}

/// The largest difference between a backend's share of the slots and of the weights, relative to the latter.
double error_of(const std::vector<Level>& levels, std::uint64_t weights, unsigned most) {
  const auto all = static_cast<double>(slots_of(levels, most));
  double error = 0;
  for (const auto& [weight, count] : levels) {
    const auto slots = static_cast<double>(slots_of(weight, levels.back().weight, most));
    error = std::max(error, std::abs(slots / all * static_cast<double>(weights) / weight - 1));
  }
  return error;
}

std::uint8_t percent(double error) {
  constexpr double rounding = 1e-9;
  return static_cast<std::uint8_t>(
      std::min(std::ceil(error * 100 - rounding), double{std::numeric_limits<std::uint8_t>::max()}));
}

}  // namespace

std::uint64_t WeightSlots::most(const Members& members) noexcept {
  const auto budget = std::max(small_set, slots_per_backend * members.count);
  return std::min<std::uint64_t>(members.slots(), budget);
}

WeightSlots::WeightSlots(const BackendList& backends, lb_scope scope) {
  const Members members = backends.members(scope);
  if (members.count == 0) {
    return;
  }
  all_ = members.slots();
  are_equal_ = members.are_equal();
  if (all_ == most(members)) {
    for (unsigned weight = 0; weight < slots_.size(); weight += members.divisor) {
      slots_.at(weight) = static_cast<std::uint8_t>(weight / members.divisor);
    }
    return;
  }
  Counts counts{};
  for (const auto& chunk : backends.chunks()) {
    for (std::size_t at = 0; at < chunk->size(); ++at) {
      if (chunk->has(scope, at)) {
        ++counts.at(chunk->backends()[at].weight);
      }
    }
  }
  choose(counts, members);
}

/// Of all numbers of slots for the heaviest weight the one with the smallest error; of equal errors, or where
/// a larger one gains less than a thousandth, the smallest number.
void WeightSlots::choose(const Counts& counts, const Members& members) {
  constexpr double worth_it = 0.001;
  std::vector<Level> levels;
  for (unsigned weight = 1; weight < counts.size(); ++weight) {
    if (counts.at(weight) > 0) {
      levels.push_back({weight, counts.at(weight)});
    }
  }
  const auto budget = most(members);
  unsigned chosen = 1;
  double error = error_of(levels, members.weights, 1);
  for (unsigned most = 2; most <= levels.back().weight && slots_of(levels, most) <= budget; ++most) {
    const auto other = error_of(levels, members.weights, most);
    if (other < error - worth_it) {
      chosen = most;
      error = other;
    }
  }
  for (const auto& level : levels) {
    slots_.at(level.weight) = static_cast<std::uint8_t>(slots_of(level.weight, levels.back().weight, chosen));
  }
  all_ = slots_of(levels, chosen);
  are_equal_ = chosen == 1;
  error_percent_ = percent(error);
}

}  // namespace lb::agent
