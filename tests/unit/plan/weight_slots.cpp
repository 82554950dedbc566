// SPDX-License-Identifier: Apache-2.0
// Weights become slots: exactly where a set is small, and within a budget where it is not (choice I).
#include "agent/plan/weight_slots.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "build.hpp"
#include "tests/lib/seed.hpp"

namespace lb::test {
namespace {

using agent::WeightSlots;

/// `count` backends of a weight each.
using Groups = std::vector<std::pair<std::size_t, std::uint8_t>>;

agent::BackendList set_of(const Groups& groups) {
  std::vector<agent::BackendPlan> backends;
  for (const auto& [count, weight] : groups) {
    for (std::size_t at = 0; at < count; ++at) {
      agent::BackendPlan backend;
      const auto number = static_cast<std::uint32_t>(backends.size());
      backend.address.bytes = {0,
                               0,
                               0,
                               0,
                               0,
                               0,
                               0,
                               0,
                               0,
                               0,
                               0xff,
                               0xff,
                               10,
                               static_cast<std::uint8_t>(number >> 16U),
                               static_cast<std::uint8_t>(number >> 8U),
                               static_cast<std::uint8_t>(number)};
      backend.port = 80;
      backend.in_cluster = true;
      backend.weight = weight;
      backends.push_back(backend);
    }
  }
  return {backends};
}

WeightSlots slots_of(const Groups& groups) { return {set_of(groups), LB_CLUSTER}; }

struct Row {
  const char* what;
  Groups groups;
  std::uint64_t all;
  unsigned error_percent;
};

const std::vector<Row> rows = {
    {"no backend", {}, 0, 0},
    {"none that takes new flows", {{3, 0}}, 0, 0},
    {"equal weights are one slot each", {{1000, 100}}, 1000, 0},
    {"a small set is exact", {{39, 100}, {1, 99}}, 3999, 0},
    {"a canary of one hundredth", {{20, 100}, {1, 1}}, 2001, 0},
    {"weights with a common divisor are exact in sets of any size", {{5000, 60}, {5000, 40}}, 25'000, 0},
    {"nearly equal weights of many are equal", {{500, 100}, {500, 99}}, 1000, 1},
    {"27,000 of two weights", {{13'500, 100}, {13'500, 99}}, 27'000, 1},
    {"weights of many by eighths", {{5000, 80}, {5000, 10}}, 45'000, 0},
    {"weights of many near sevenths", {{5000, 80}, {5000, 11}}, 40'000, 4},
    {"a light one among many gets one slot, which is more than its share",
     {{10'000, 100}, {10, 1}},
     80'010,
     255},
};

TEST_CASE("REL-158 the slots of a set, and by how much a share may differ from its weight (choice I)") {
  for (const auto& row : rows) {
    INFO(row.what);
    const auto slots = slots_of(row.groups);
    CHECK(slots.all() == row.all);
    CHECK(unsigned{slots.error_percent()} == row.error_percent);
    std::uint64_t sum = 0;
    for (const auto& [count, weight] : row.groups) {
      sum += count * slots.of(weight);
    }
    CHECK(sum == slots.all());
  }
}

TEST_CASE("REL-158 no set has more slots than its budget, no member none, and the error is as said") {
  std::mt19937 random(lb::test::seed());
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  for (int round = 0; round < 200; ++round) {
    Groups groups;
    std::size_t count = 0;
    std::uint64_t weights = 0;
    for (auto kinds = 1 + below(5); kinds > 0; --kinds) {
      groups.emplace_back(1 + below(round % 2 == 0 ? 20 : 1500), static_cast<std::uint8_t>(1 + below(100)));
      count += groups.back().first;
      weights += groups.back().first * groups.back().second;
    }
    const auto slots = slots_of(groups);
    CHECK(slots.all() <=
          std::max<std::uint64_t>(WeightSlots::small_set, WeightSlots::slots_per_backend * count));
    CHECK((count > 40 || slots.error_percent() == 0));
    for (const auto& [ignored, weight] : groups) {
      CHECK(slots.of(weight) > 0);
      const double share = static_cast<double>(slots.of(weight)) / static_cast<double>(slots.all());
      const double wanted = static_cast<double>(weight) / static_cast<double>(weights);
      if (slots.error_percent() < 255) {
        CHECK(std::abs(share / wanted - 1) <= slots.error_percent() / 100.0 + 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace lb::test
