// SPDX-License-Identifier: Apache-2.0
// Repair of entries that other programs changed (SEM-70).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <numeric>
#include <vector>

#include "agent/base/clock.hpp"
#include "tests/unit/tables/fakes.hpp"

using lb::agent::Batch;
using namespace lb::tables_test;

namespace {

std::vector<lb::agent::PlanChange> plan() {
  auto restricted = service("limited", 2, {3});
  restricted->policy.source_ranges = LB_YES;
  restricted->source_ranges = {{.address = address(7, 0), .length = 120}};
  return {change(service("web", 1, {1, 2})), change(restricted)};
}

/// An agent that has written the plan to its tables.
struct Written {
  Written() {
    REQUIRE(agent.tables.adopt().has_value());
    agent.tables.apply(Batch::whole, plan());
    agent.settle();
    good = lines(kernel);
  }
  FakeKernel kernel;
  Agent agent{kernel};
  std::vector<std::string> good;
};

}  // namespace

TEST_CASE("SEM-70: what others wrote, changed or took away in the tables is put right") {
  FakeKernel kernel;
  Agent agent(kernel);
  REQUIRE(agent.tables.adopt().has_value());
  CHECK(agent.tables.repair().empty());
  agent.tables.apply(Batch::whole, plan());
  agent.settle();
  const auto good = lines(kernel);
  const auto writes = kernel.faults.writes;
  CHECK(agent.tables.repair().empty());
  CHECK(kernel.faults.writes == writes);

  auto& frontends = kernel.frontends.entries;
  REQUIRE(frontends.size() >= 2);
  const auto kept = frontends.begin()->second;
  auto foreign = kept;
  foreign.first.port = 4711;
  frontends.erase(frontends.begin());
  frontends.begin()->second.second.service = 99;
  (void)kernel.frontends.put(foreign.first, foreign.second, lb::maps::Put::any);
  REQUIRE(kernel.ranges.entries.size() == 1);
  kernel.ranges.entries.clear();
  CHECK(lines(kernel) != good);
  const auto repaired = agent.tables.repair();
  REQUIRE(repaired.size() == 2);
  CHECK(repaired[0].table == "lb_frontends");
  CHECK(repaired[0].entries == 3);
  CHECK(repaired[1].table == "lb_ranges");
  CHECK(repaired[1].entries == 1);
  CHECK(lines(kernel) == good);
  CHECK(agent.tables.repair().empty());
}

TEST_CASE("SEM-70: a slot of a consistent table that others changed is put right") {
  FakeKernel kernel({.slots = 1024});
  Agent agent(kernel);
  const auto consistent = service("web", 1, {1, 2, 3});
  consistent->policy.selection = LB_CONSISTENT;
  agent.tables.apply(Batch::whole, {change(consistent)});
  agent.settle();
  const auto good = lines(kernel);
  CHECK(agent.tables.repair().empty());
  const auto first = kernel.services.load(1).cluster.first;
  kernel.slots.store(first + 1, kernel.slots.load(first + 1) % 3 + 1);
  const auto repaired = agent.tables.repair();
  REQUIRE(repaired.size() == 1);
  CHECK(repaired[0].table == "lb_slots");
  CHECK(repaired[0].entries == 1);
  agent.settle();
  CHECK(agent.tables.repair().empty());
  CHECK(lines(kernel) == good);
}

namespace {

/// A consistent service of 250 backends, with one frontend for each of `lasts`.
Plan consistent_service(const std::vector<std::uint8_t>& lasts) {
  std::vector<std::uint8_t> backends(250);
  std::iota(backends.begin(), backends.end(), std::uint8_t{1});
  const auto plan = service("web", 0, backends);
  plan->policy.selection = LB_CONSISTENT;
  for (const auto last : lasts) {
    plan->frontends.push_back({address(0, last), 80, LB_EXTERNAL_IP});
  }
  return plan;
}

}  // namespace

TEST_CASE("SEM-70: a consistent table is not computed again for other changes, and is still repaired") {
  FakeKernel kernel({.slots = 1U << 16U});
  Agent agent(kernel, 16381);
  const auto write = [&](const Plan& plan) {
    const auto begin = lb::agent::thread_time();
    agent.tables.apply(Batch::changes, {change(plan)});
    return lb::agent::thread_time() - begin;
  };
  agent.tables.apply(Batch::whole, {});
  const auto computing = write(consistent_service({1}));
  const auto first = kernel.services.load(1).cluster.first;
  auto shortest = computing;
  for (int round = 0; round < 5; ++round) {
    shortest = std::min(shortest, write(consistent_service({1, 2})));
    shortest = std::min(shortest, write(consistent_service({1})));
  }
  CHECK(shortest < computing / 8);
  CHECK(kernel.services.load(1).cluster.first == first);
  const auto good = lines(kernel);

  kernel.slots.store(first + 1, kernel.slots.load(first + 1) % 250 + 1);
  SECTION("by a repair") {
    const auto repaired = agent.tables.repair();
    REQUIRE(repaired.size() == 1);
    CHECK(repaired[0].table == "lb_slots");
    CHECK(repaired[0].entries == 1);
  }
  SECTION("by a change") { write(consistent_service({1})); }
  CHECK(lines(kernel) == good);
  agent.settle();
  CHECK(agent.tables.repair().empty());
}

TEST_CASE("a consistent table follows its backends, their weights and its scope") {
  FakeKernel kernel({.slots = 4096});
  Agent agent(kernel);
  const auto plan = [](auto edit) {
    const auto made = service("web", 1, {1, 2, 3});
    made->policy.selection = LB_CONSISTENT;
    edit_backends(made, edit);
    return change(made);
  };
  const std::vector<lb::agent::PlanChange> ways = {
      plan([](auto&) {}),
      plan([](auto& backends) { backends[1].weight = 3; }),
      plan([](auto& backends) { backends[1].weight = 0; }),
      plan([](auto& backends) { backends[2].in_local = true; }),
      plan([](auto& backends) { backends[0].in_cluster = false; }),
      plan([](auto& backends) { backends.pop_back(); }),
      change(service("web", 1, {1, 2, 3})),
      plan([](auto&) {}),
  };
  agent.tables.apply(Batch::whole, {});
  for (const auto& way : ways) {
    agent.tables.apply(Batch::changes, {way});
    agent.settle();
    CHECK(lines(kernel) == clean_lines({way}, {.slots = 4096}));
    CHECK(agent.tables.repair().empty());
  }
}

TEST_CASE("SEM-70: what cannot be put right now is put right later") {
  Written written;
  auto& kernel = written.kernel;
  auto& agent = written.agent;
  const auto& good = written.good;
  kernel.frontends.entries.erase(kernel.frontends.entries.begin());
  kernel.faults.fail_at = kernel.faults.writes;
  const auto failed = agent.tables.repair();
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].failure);
  CHECK(lines(kernel) != good);
  CHECK(agent.tables.repair().size() == 1);
  CHECK(lines(kernel) == good);
}

TEST_CASE("SEM-70: a slot that cannot be repaired for lack of room is counted as that, and repaired later") {
  FakeKernel kernel({.slots = 8});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole,
                     {change(service("web", 1, {1, 2, 3, 4})), change(service("other", 2, {5, 6, 7, 8}))});
  agent.settle();
  const auto first =
      kernel.services.load(kernel.frontends.entries.begin()->second.second.service).cluster.first;
  kernel.slots.store(first, 0);
  const auto failed = agent.tables.repair();
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].table == "lb_slots");
  CHECK(failed[0].entries == 0);
  CHECK(failed[0].left == 1);
  CHECK(failed[0].failure);
  agent.tables.apply(Batch::changes, {change("other", {})});
  agent.settle();
  const auto repaired = agent.tables.repair();
  REQUIRE(repaired.size() == 1);
  CHECK(repaired[0].entries == 1);
  CHECK(repaired[0].left == 0);
  CHECK_FALSE(repaired[0].failure);
}

TEST_CASE("SEM-70: what others wrote into the arrays is put right") {
  Written written;
  auto& kernel = written.kernel;
  auto& agent = written.agent;
  const auto& good = written.good;
  const auto number = kernel.frontends.entries.begin()->second.second.service;
  const auto row = kernel.services.load(number);
  const auto id = kernel.slots.load(row.cluster.first);
  const auto repaired_alone = [&](const char* table) {
    const auto repaired = agent.tables.repair();
    agent.settle();
    REQUIRE(repaired.size() == 1);
    CHECK(repaired[0].table == table);
    CHECK(repaired[0].entries == 1);
    CHECK_FALSE(repaired[0].failure);
    CHECK(lines(kernel) == good);
    CHECK(kernel.services.load(number).cluster.count == row.cluster.count);
    CHECK(agent.tables.repair().empty());
  };
  SECTION("a service's row") {
    auto other = row;
    other.cluster.count = 0;
    kernel.services.store(number, other);
    repaired_alone("lb_services");
  }
  SECTION("a slot") {
    kernel.slots.store(row.cluster.first, 0);
    repaired_alone("lb_slots");
  }
  SECTION("a backend's place") {
    auto other = kernel.backends.load(id);
    other.port = 4711;
    kernel.backends.store(id, other);
    repaired_alone("lb_backends");
  }
  SECTION("what a backend is") {
    auto other = kernel.backends.load(id);
    other.in_cluster = LB_NO;
    kernel.backends.store(id, other);
    repaired_alone("lb_backends");
    CHECK(kernel.backends.load(id).in_cluster == LB_YES);
  }
}
