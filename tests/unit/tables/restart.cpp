// SPDX-License-Identifier: Apache-2.0
// How the next agent adopts existing tables: a clean state, a killed agent's, and another program's.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/unit/tables/fakes.hpp"

using lb::agent::Batch;
using lb::agent::PlanChange;
using namespace lb::tables_test;

namespace {

/// The plan with a load balancer's source range 10.0.NET.0/24.
Plan restricted(Plan plan, std::uint8_t net) {
  plan->policy.source_ranges = LB_YES;
  plan->source_ranges = {{.address = address(net, 0), .length = 120}};
  return plan;
}

std::vector<PlanChange> first_plan() {
  return {change(service("stays", 1, {1, 2})), change(service("changes", 2, {1, 2, 3})),
          change(restricted(service("goes", 3, {1}), 7)), change(restricted(service("loses", 4, {4}), 8))};
}

std::vector<PlanChange> second_plan() {
  return {change(service("stays", 1, {1, 2})), change(service("changes", 2, {2, 3, 5})),
          change(service("loses", 0, {4})), change(service("comes", 3, {6, 7}))};
}

/// The second plan as changes to the first.
std::vector<PlanChange> difference() {
  auto changes = second_plan();
  changes.erase(changes.begin());
  changes.insert(changes.begin(), change("goes", {}));
  return changes;
}

/// Starts an agent on the existing tables; its first plan is the second one.
void expect_repair(FakeKernel& kernel) {
  kernel.faults = {};
  REQUIRE_FALSE(torn(lines(kernel)));
  Agent next(kernel);
  REQUIRE(next.tables.adopt().has_value());
  CHECK(kernel.faults.writes == 0);
  next.tables.apply(Batch::whole, second_plan());
  REQUIRE_FALSE(torn(lines(kernel)));
  next.settle();
  CHECK(lines(kernel) == clean_lines(second_plan()));
  CHECK(next.complaints.empty());
  next.tables.retry();
  next.settle();
  CHECK(used(kernel, next.tables) == Used{.names = 4, .backends = 8, .slots = 8});
}

}  // namespace

TEST_CASE("a service of which a first plan says nothing yet stays as it was (choice H)") {
  FakeKernel kernel;
  Agent(kernel).tables.apply(Batch::whole, first_plan());
  Agent next(kernel);
  REQUIRE(next.tables.adopt().has_value());
  auto plan = second_plan();
  plan.push_back({.service = "default/goes", .ports = {}, .state = lb::agent::PlanState::waiting});
  next.tables.apply(Batch::whole, plan);
  // Its frontend, its range, its set; "comes" does not fit before it is removed.
  CHECK(std::ranges::count_if(lines(kernel), [](const std::string& line) {
          return line.find("default/goes") != std::string::npos;
        }) == 3);
  next.tables.apply(Batch::changes, {change("goes", {})});
  next.settle();
  CHECK(lines(kernel) == clean_lines(second_plan()));
}

TEST_CASE("SEM-71 an agent that starts takes over what is there and writes nothing that is right") {
  FakeKernel kernel;
  {
    Agent agent(kernel);
    agent.tables.apply(Batch::whole, first_plan());
  }
  const auto before = lines(kernel);
  const int writes = kernel.faults.writes;
  Agent next(kernel);
  const auto adopted = next.tables.adopt();
  REQUIRE(adopted.has_value());
  CHECK((adopted->services == 4 && adopted->backends == 7 && adopted->frontends == 4));
  next.tables.apply(Batch::whole, first_plan());
  CHECK(kernel.faults.writes == writes);
  CHECK(lines(kernel) == before);
  CHECK(next.tables.complete());
}

TEST_CASE("a restarted agent reuses neither slots nor ids nor numbers before a grace period has passed") {
  FakeKernel kernel;
  {
    Agent agent(kernel);
    agent.tables.apply(Batch::whole, first_plan());
  }
  auto plan = first_plan();
  SECTION("an endpoint less: slots") { plan[1] = change(service("changes", 2, {1, 3})); }
  SECTION("another endpoint: ids") { plan[0] = change(service("stays", 1, {1, 9})); }
  SECTION("one more service: numbers") { plan.push_back(change(service("comes", 9, {}))); }
  const auto before = lines(kernel);
  Agent next(kernel);
  REQUIRE(next.tables.adopt().has_value());
  next.tables.apply(Batch::whole, plan);
  CHECK(lines(kernel) == before);
  CHECK_FALSE(next.tables.complete());
  next.settle();
  CHECK(next.tables.complete());
  CHECK(lines(kernel) == clean_lines(plan));
}

TEST_CASE("an agent killed at any write leaves what readers can use and the next one repairs") {
  FakeKernel counted;
  Agent agent(counted);
  agent.tables.apply(Batch::whole, first_plan());
  const int begin = counted.faults.writes;
  agent.tables.apply(Batch::changes, difference());
  agent.settle();
  agent.tables.retry();
  agent.settle();
  const int end = counted.faults.writes;
  REQUIRE(end - begin >= 5);

  for (int at = 0; at < end; ++at) {
    INFO("killed at write " << at);
    FakeKernel kernel;
    kernel.faults.kill_at = at;
    Agent killed(kernel);
    try {
      killed.tables.apply(Batch::whole, first_plan());
      killed.tables.apply(Batch::changes, difference());
      killed.settle();
      killed.tables.retry();
      killed.settle();
      FAIL("not killed");
    } catch (const Killed&) {
    }
    expect_repair(kernel);
  }
}

TEST_CASE("REL-82 an error at any write disturbs no other service and heals by a retry") {
  const auto error =
      GENERATE(boost::system::errc::not_enough_memory, boost::system::errc::device_or_resource_busy,
               boost::system::errc::argument_list_too_long);
  int at = 0;
  for (bool fired = true; fired; ++at) {
    INFO("error at write " << at);
    FakeKernel kernel;
    Agent agent(kernel);
    agent.tables.apply(Batch::whole, first_plan());
    kernel.faults.fail_at = kernel.faults.writes + at;
    kernel.faults.error = make_error_code(error);
    agent.tables.apply(Batch::changes, difference());
    fired = kernel.faults.writes > kernel.faults.fail_at;
    CHECK_FALSE(torn(lines(kernel)));
    const bool waits = agent.tables.retry_in().has_value();
    // A table that is full but for what this batch removes is tried again at once (REL-155).
    CHECK((waits == fired || error == boost::system::errc::argument_list_too_long));
    CHECK(agent.complaints.size() == (waits ? 1 : 0));
    agent.tables.retry();
    agent.settle();
    CHECK(lines(kernel) == clean_lines(second_plan()));
    CHECK(agent.tables.complete());
  }
  CHECK(at >= 5);
}

TEST_CASE("entries that no agent can have written are removed, and their numbers are not lost") {
  FakeKernel kernel;
  {
    Agent agent(kernel);
    agent.tables.apply(Batch::whole, first_plan());
  }
  SECTION("a frontend of a number without a name") { REQUIRE_FALSE(kernel.names.erase(3)); }
  SECTION("a frontend of a number that cannot be") {
    auto entry = kernel.frontends.entries.begin()->second;
    entry.first.port = 81;
    entry.second.service = 4000000;
    kernel.frontends.entries["stray"] = entry;
    std::string bytes(reinterpret_cast<const char*>(&entry.first), sizeof(entry.first));
    kernel.frontends.entries.erase("stray");
    kernel.frontends.entries[bytes] = entry;
  }
  SECTION("a retired name that still has a frontend and backends") {
    auto name = *kernel.names.get(3);
    name.retired = LB_YES;
    REQUIRE_FALSE(kernel.names.put(3, name, lb::maps::Put::any));
  }
  SECTION("two numbers of one service port") {
    REQUIRE_FALSE(kernel.names.put(9, *kernel.names.get(2), lb::maps::Put::any));
  }
  SECTION("sets that overlap, and one out of range") {
    lb_service service = kernel.services.load(1);
    kernel.services.store(2, service);
    service.cluster.first = 4000000000;
    kernel.services.store(4, service);
  }
  SECTION("backends of a number without a name, and of one that cannot be") {
    lb_backend stray = kernel.backends.load(1);
    stray.service = 20;
    kernel.backends.store(30, stray);
    stray.service = 4000000;
    kernel.backends.store(31, stray);
  }
  Agent next(kernel);
  REQUIRE(next.tables.adopt().has_value());
  next.tables.apply(Batch::whole, second_plan());
  next.settle();
  next.tables.retry();
  next.settle();
  CHECK(lines(kernel) == clean_lines(second_plan()));
  CHECK(used(kernel, next.tables) == Used{.names = 4, .backends = 8, .slots = 8});
}
