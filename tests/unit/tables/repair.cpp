// Repair of entries that other programs changed (SEM-70).
#include <catch2/catch_test_macros.hpp>

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
