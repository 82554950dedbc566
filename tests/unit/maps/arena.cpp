// SPDX-License-Identifier: Apache-2.0
// The arena compared with a plain array of marks, and the pool of numbers.
#include "maps/arena.hpp"

#include <algorithm>
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <set>
#include <vector>

#include "tests/lib/seed.hpp"

using lb::maps::Extent;
using lb::maps::ExtentArena;
using lb::maps::IdPool;

namespace {

std::uint32_t longest_run(const std::vector<bool>& taken) {
  std::uint32_t longest = 0;
  std::uint32_t run = 0;
  for (const bool mark : taken) {
    run = mark ? 0 : run + 1;
    longest = std::max(longest, run);
  }
  return longest;
}

}  // namespace

TEST_CASE(
    "an arena never gives a slot twice, finds every run that is long enough, and merges what comes back") {
  const auto seed = lb::test::seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  constexpr std::uint32_t limit = 500;
  ExtentArena arena(limit);
  std::vector<bool> taken(limit);
  std::vector<Extent> extents;
  const auto mark = [&](Extent extent, bool value) {
    for (std::uint32_t at = extent.first; at < extent.first + extent.count; ++at) {
      REQUIRE(taken.at(at) != value);
      taken.at(at) = value;
    }
  };
  for (int step = 0; step < 5000; ++step) {
    if (random() % 2 == 0 && !extents.empty()) {
      std::swap(extents[random() % extents.size()], extents.back());
      mark(extents.back(), false);
      arena.release(extents.back());
      extents.pop_back();
    } else {
      const auto count = static_cast<std::uint32_t>(random() % 60);
      const std::uint32_t longest = longest_run(taken);
      const auto extent = arena.allocate(count);
      REQUIRE(extent.has_value() == (count <= longest));
      if (extent && count > 0) {
        mark(*extent, true);
        extents.push_back(*extent);
      }
    }
    REQUIRE(arena.available() == static_cast<std::uint32_t>(std::count(taken.begin(), taken.end(), false)));
    REQUIRE(arena.largest() == longest_run(taken));
  }
}

TEST_CASE("an arena takes up extents that are in use, once") {
  ExtentArena arena(100);
  CHECK(arena.claim({.first = 10, .count = 20}));
  CHECK_FALSE(arena.claim({.first = 29, .count = 1}));
  CHECK_FALSE(arena.claim({.first = 5, .count = 6}));
  CHECK_FALSE(arena.claim({.first = 90, .count = 11}));
  CHECK_FALSE(arena.claim({.first = 4000000000, .count = 1000000000}));
  CHECK(arena.claim({.first = 4000000000, .count = 0}));
  CHECK(arena.claim({.first = 30, .count = 70}));
  CHECK(arena.available() == 10);
  CHECK(arena.allocate(11) == std::nullopt);
  CHECK(arena.allocate(10) == Extent{.first = 0, .count = 10});
  CHECK(ExtentArena(0).allocate(1) == std::nullopt);
}

TEST_CASE("a pool gives every number but 0 once, and what was given back again") {
  IdPool pool(5);
  CHECK(pool.available() == 4);
  std::set<std::uint32_t> given;
  for (int count = 0; count < 4; ++count) {
    given.insert(pool.allocate().value());
  }
  CHECK(given == std::set<std::uint32_t>{1, 2, 3, 4});
  CHECK(pool.allocate() == std::nullopt);
  pool.release(3);
  CHECK(pool.allocate() == 3);
  pool.adopt({false, false, true, false, false});
  CHECK(pool.available() == 3);
  given.clear();
  for (int count = 0; count < 3; ++count) {
    given.insert(pool.allocate().value());
  }
  CHECK(given == std::set<std::uint32_t>{1, 3, 4});
  pool.adopt(std::vector<bool>(5));
  CHECK(pool.available() == 4);
  CHECK(pool.allocate() == 1);
}
