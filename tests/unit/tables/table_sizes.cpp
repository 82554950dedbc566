// SPDX-License-Identifier: Apache-2.0
// The wanted sizes of tables: when a table is too small, and how much larger or smaller it should be.
#include "agent/tables/table_sizes.hpp"

#include <catch2/catch_test_macros.hpp>

#include "tests/unit/tables/fakes.hpp"

using lb::agent::Progress;
using lb::agent::RetryQueue;
using lb::agent::Sizes;
using namespace lb::tables_test;

namespace {

struct Fixture {
  explicit Fixture(Limits limits = {})
      : kernel(limits), tables(kernel.store(), grace, sweeper, [] {}, 251), sizes(tables) {}

  FakeKernel kernel;
  ManualGrace grace;
  ManualSweeper sweeper;
  lb::agent::TableSet tables;
  lb::agent::TableSizes sizes;
};

/// A queue in which one plan waits.
RetryQueue waiting_for(const Plan& plan) {
  RetryQueue waiting;
  waiting.keep(change(plan), Progress::failed, 0);
  return waiting;
}

}  // namespace

TEST_CASE("a table counts as too small only if it is so at a retry") {
  Fixture fixture;
  const auto waiting = waiting_for(service("web", 1, {1}));
  fixture.sizes.note_full(&Sizes::backends);
  CHECK_FALSE(fixture.sizes.larger(waiting));
  fixture.sizes.note_retry();
  CHECK_FALSE(fixture.sizes.larger(waiting));
  fixture.sizes.note_full(&Sizes::backends);
  REQUIRE(fixture.sizes.larger(waiting));
  CHECK(fixture.sizes.larger(waiting)->backends == 512);
  CHECK(fixture.sizes.larger(waiting)->frontends == 64);
  fixture.sizes.note_success();
  fixture.sizes.note_full(&Sizes::backends);
  CHECK_FALSE(fixture.sizes.larger(waiting));
}

TEST_CASE("a larger table has room for all that waits, and is a power of two") {
  Fixture fixture({.backends = 100});
  std::vector<std::uint8_t> lasts(200);
  for (std::uint8_t last = 0; last < 200; ++last) {
    lasts[last] = last;
  }
  const auto waiting = waiting_for(service("web", 1, lasts));
  fixture.sizes.note_retry();
  fixture.sizes.note_full(&Sizes::backends);
  fixture.sizes.note_full(&Sizes::slots);
  CHECK(fixture.sizes.larger(waiting)->backends == 512);  // 100 and 200
  CHECK(fixture.sizes.larger(waiting)->slots == 1024);    // 256 and twice 200
}

TEST_CASE("slots may be fewer where four times what is in use is no more than half of them") {
  Fixture fixture({.slots = 1024});
  REQUIRE(fixture.tables.reclaimer.slots(100));
  REQUIRE(fixture.sizes.smaller(16));
  CHECK(fixture.sizes.smaller(16)->slots == 512);
  CHECK_FALSE(fixture.sizes.smaller(1024));
  REQUIRE(fixture.tables.reclaimer.slots(100));
  CHECK_FALSE(fixture.sizes.smaller(16));
}
