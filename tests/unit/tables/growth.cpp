// SPDX-License-Identifier: Apache-2.0
// Which tables must be larger, and how large, after entries did not fit (SEM-81).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>
#include <vector>

#include "tests/unit/tables/fakes.hpp"

using lb::agent::Batch;
using lb::agent::Sizes;
using namespace lb::tables_test;

namespace {

/// The sizes of the fake kernel's tables.
Sizes sizes_of(const FakeKernel& kernel) {
  Sizes sizes;
  sizes.frontends = kernel.frontends.limit();
  sizes.ranges = kernel.ranges.limit();
  sizes.services = kernel.services.size();
  sizes.backends = kernel.backends.size();
  sizes.slots = kernel.slots.size();
  return sizes;
}

Plan numbered(const std::string& name, std::uint8_t frontend, std::uint8_t count) {
  std::vector<std::uint8_t> lasts;
  for (std::uint8_t last = 0; last < count; ++last) {
    lasts.push_back(last);
  }
  return service(name, frontend, lasts);
}

/// A plan that fits, one that does not, and the table that must become larger.
struct Case {
  Limits limits;
  std::vector<Plan> plans;
  std::uint32_t Sizes::* table;
  std::uint32_t wanted;
};

void check(const Case& row) {
  FakeKernel kernel(row.limits);
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1, 2}))});
  agent.settle();
  CHECK_FALSE(agent.tables.larger());
  std::vector<lb::agent::PlanChange> changes;
  for (const auto& plan : row.plans) {
    changes.push_back(change(plan));
  }
  agent.tables.apply(Batch::changes, changes);
  agent.settle();
  agent.tables.retry();
  agent.settle();
  REQUIRE(agent.tables.larger());
  Sizes wanted = sizes_of(kernel);
  wanted.*row.table = row.wanted;
  CHECK(*agent.tables.larger() == wanted);

  // With tables of that size everything fits.
  FakeKernel larger({.frontends = wanted.frontends,
                     .services = wanted.services,
                     .backends = wanted.backends,
                     .slots = wanted.slots});
  Agent next(larger);
  changes.push_back(change(service("web", 1, {1, 2})));
  next.tables.apply(Batch::whole, changes);
  next.settle();
  CHECK(next.tables.complete());
  CHECK_FALSE(next.tables.larger());
}

}  // namespace

TEST_CASE("SEM-81 a table that is too small is to be twice as large, or as large as it takes") {
  SECTION("backends, a few too many") {
    check({{.backends = 16}, {numbered("big", 2, 14)}, &Sizes::backends, 32});
  }
  SECTION("backends, many too many") {
    check({{.backends = 16}, {numbered("big", 2, 120)}, &Sizes::backends, 256});
  }
  SECTION("slots") { check({{.slots = 16}, {numbered("big", 2, 60)}, &Sizes::slots, 256}); }
  SECTION("service ports") {
    check({{.services = 4},
           {numbered("a", 2, 1), numbered("b", 3, 1), numbered("c", 4, 1)},
           &Sizes::services,
           8});
  }
  SECTION("frontends") {
    check({{.frontends = 2}, {numbered("a", 2, 1), numbered("b", 3, 1)}, &Sizes::frontends, 4});
  }
}

TEST_CASE(
    "SEM-81 several services that do not fit after a restart are reported of, and the sweeps come to an "
    "end") {
  FakeKernel kernel({.backends = 16});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(numbered("web", 1, 12))});
  agent.settle();
  Agent next(kernel);
  REQUIRE(next.tables.adopt().has_value());
  next.tables.apply(Batch::whole, {change(numbered("web", 1, 12)), change(numbered("a", 2, 6)),
                                   change(numbered("b", 3, 6)), change(numbered("c", 4, 6))});
  for (int round = 0; round < 20; ++round) {
    next.grace.pass();
    next.sweeper.finish();
  }
  CHECK_FALSE(next.sweeper.waiting);
  CHECK(next.sweeper.count < 5);
  CHECK(next.complaints.size() == 3);
  CHECK(next.tables.retry_in());
}

TEST_CASE(
    "SEM-81 a service that does not fit, with an endpoint that came back, is reported, and its table grows") {
  const bool few_backends = GENERATE(true, false);
  const auto table = few_backends ? &Sizes::backends : &Sizes::slots;
  FakeKernel kernel({.backends = few_backends ? 8U : 64U, .slots = few_backends ? 64U : 8U});
  Agent agent(kernel);
  agent.sweeper.named.add(3, 1);  // a flow still refers to the backend that comes back
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1, 2, 3}))});
  agent.tables.apply(Batch::changes, {change(service("web", 1, {1, 2}))});
  agent.tables.apply(Batch::changes, {change(service("web", 1, {1, 2, 3, 4, 5, 6, 7, 8, 9}))});
  agent.settle();
  CHECK(agent.complaints.size() == 1);
  REQUIRE(agent.tables.retry_in());
  const int sweeps = agent.sweeper.count;
  agent.tables.retry();
  agent.settle();
  CHECK(agent.sweeper.count == sweeps + 1);
  REQUIRE(agent.tables.larger());
  CHECK((*agent.tables.larger()).*table > sizes_of(kernel).*table);
}

TEST_CASE(
    "SEM-81 a service that does not fit is reported, and its table grows, while another one changes all the "
    "time") {
  const bool few_backends = GENERATE(true, false);
  FakeKernel kernel({.backends = few_backends ? 16U : 64U, .slots = few_backends ? 64U : 24U});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(numbered("web", 1, 10)), change(service("flaps", 2, {1}))});
  agent.settle();
  std::uint8_t last = 1;
  const auto flap = [&] {
    last = last == 1 ? 2 : 1;
    agent.tables.apply(Batch::changes, {change(service("flaps", 2, {last}))});
  };
  const auto pass = [&] {
    for (int round = 0; round < 6; ++round) {
      flap();
      agent.grace.pass();
      flap();
      agent.sweeper.finish();
    }
  };
  flap();
  agent.tables.apply(Batch::changes, {change(numbered("big", 3, 20))});
  CHECK_FALSE(agent.tables.failed("default/big"));  // what was retired before may make room
  pass();
  CHECK(agent.tables.failed("default/big"));
  REQUIRE(agent.complaints.size() == 1);
  agent.tables.retry();
  pass();
  CHECK(agent.tables.failed("default/big"));
  CHECK(agent.tables.larger());
}

TEST_CASE("SEM-81 what fails for another reason asks for no larger table, nor what may yet find room") {
  FakeKernel kernel({.backends = 16});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(numbered("web", 1, 14))});
  SECTION("the kernel has no memory") {
    kernel.faults.fail_at = kernel.faults.writes;
    agent.tables.apply(Batch::changes, {change(service("web", 2, {1}))});
    agent.settle();
    CHECK_FALSE(agent.tables.complete());
    CHECK_FALSE(agent.tables.larger());
  }
  SECTION("other backends are about to be free") {
    agent.tables.apply(Batch::changes, {change("web", {}), change(numbered("next", 2, 10))});
    CHECK_FALSE(agent.tables.complete());
    CHECK_FALSE(agent.tables.larger());
    agent.settle();
    agent.tables.retry();
    agent.settle();
    CHECK(agent.tables.complete());
    CHECK_FALSE(agent.tables.larger());
  }
  SECTION("what was refused went") {
    agent.tables.apply(Batch::changes, {change(numbered("next", 2, 10))});
    agent.settle();
    agent.tables.retry();
    agent.settle();
    CHECK(agent.tables.larger());
    agent.tables.apply(Batch::changes, {change("next", {})});
    agent.settle();
    CHECK_FALSE(agent.tables.larger());
  }
  SECTION("what was refused went, and something else is refused for good") {
    agent.tables.apply(Batch::changes,
                       {change(numbered("next", 2, 10)), change(service(std::string(400, 'x'), 3, {1}))});
    agent.settle();
    agent.tables.retry();
    agent.settle();
    CHECK(agent.tables.larger());
    agent.tables.apply(Batch::changes, {change("next", {})});
    agent.settle();
    agent.tables.retry();
    agent.settle();
    CHECK_FALSE(agent.tables.complete());
    CHECK_FALSE(agent.tables.larger());
  }
}

namespace {

/// The end of the last set of any service.
std::uint32_t end_of_sets(FakeKernel& kernel) {
  std::uint32_t end = 0;
  for (std::uint32_t number = 0; number < kernel.services.size(); ++number) {
    const auto row = kernel.services.load(number);
    end = std::max({end, row.cluster.first + row.cluster.count, row.local.first + row.local.count});
  }
  return end;
}

}  // namespace

TEST_CASE("SEM-81 slots that are mostly free may be fewer, once all sets lie in the first of them") {
  FakeKernel kernel({.backends = 1024, .slots = 1024});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(numbered("big", 1, 200))});
  agent.tables.apply(Batch::changes, {change(service("web", 2, {1, 2}))});
  agent.settle();
  CHECK_FALSE(agent.tables.smaller(16));
  agent.tables.apply(Batch::changes, {change("big", {})});
  CHECK_FALSE(agent.tables.smaller(16));  // readers may still use the slots
  agent.settle();
  CHECK_FALSE(agent.tables.smaller(1024));
  REQUIRE(agent.tables.smaller(16));
  auto wanted = sizes_of(kernel);
  wanted.slots = 16;
  CHECK(*agent.tables.smaller(16) == wanted);
  const auto before = lines(kernel);
  CHECK(end_of_sets(kernel) > 200);
  CHECK(agent.tables.lower_slots(8));
  CHECK(end_of_sets(kernel) <= 8);
  agent.settle();
  CHECK(lines(kernel) == before);
}

TEST_CASE("SEM-81 sets that find no room in the first slots stay where they are") {
  FakeKernel kernel({.backends = 1024, .slots = 1024});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(numbered("big", 1, 200))});
  agent.settle();
  const auto before = lines(kernel);
  CHECK_FALSE(agent.tables.lower_slots(100));
  agent.settle();
  CHECK(lines(kernel) == before);
}
