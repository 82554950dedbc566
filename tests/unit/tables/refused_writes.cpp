// SPDX-License-Identifier: Apache-2.0
// What Tables keeps, says and tries again when a table is full or the kernel refuses a write.
#include <catch2/catch_test_macros.hpp>
#include <set>

#include "tests/unit/tables/fakes.hpp"

using lb::agent::Batch;
using namespace lb::tables_test;

namespace {

/// A service that admits these clients: 10.0.5.FIRST to 10.0.5.LAST.
Plan restricted(const std::string& name, std::uint8_t frontend, std::uint8_t first, std::uint8_t last) {
  const auto plan = service(name, frontend, {1});
  plan->policy.source_ranges = LB_YES;
  for (std::uint8_t at = first; at <= last; ++at) {
    plan->source_ranges.push_back({address(5, at), 128});
  }
  return plan;
}

constexpr std::uint8_t room_for_services = 15;  ///< FakeKernel has 16 ranges, one of them for the node

}  // namespace

TEST_CASE("SEM-81 a set that does not fit gives back what the other one took") {
  FakeKernel kernel({.slots = 10});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1, 2}))});
  const auto plan = service("web", 1, {1, 2, 3, 4, 5});
  edit_backends(plan, [](auto& backends) {
    for (auto& backend : backends) {
      backend.in_local = true;
    }
  });
  agent.tables.apply(Batch::changes, {change(plan)});
  agent.settle();
  CHECK(agent.complaints.size() == 1);
  CHECK(agent.tables.fills()[2].used == 2);
  CHECK(agent.tables.fills()[3].used == 2);
  agent.tables.apply(Batch::changes, {change(service("web", 1, {1, 2, 3, 4, 5, 6, 7, 8}))});
  CHECK(agent.tables.complete());
}

TEST_CASE("what could not be written is tried again, though the plan is the same") {
  FakeKernel kernel({.frontends = 1});
  Agent agent(kernel);
  const auto web = service("web", 1, {1});
  agent.tables.apply(Batch::whole, {change(service("first", 2, {1})), change(web)});
  CHECK_FALSE(agent.tables.complete());
  agent.tables.apply(Batch::changes, {change("first", {}), change(web)});
  agent.settle();
  CHECK(agent.tables.complete());
  CHECK(lines(kernel) == clean_lines({change(web)}));
}

TEST_CASE("REL-155 a full table of ranges has room for a service when another one of the batch leaves it") {
  FakeKernel kernel;
  Agent agent(kernel);
  const auto old = restricted("old", 1, 1, room_for_services);
  agent.tables.apply(Batch::whole, {change(old)});
  CHECK(agent.tables.complete());
  const auto few = restricted("old", 1, 1, 2);
  const auto fresh = restricted("new", 2, 101, 101 + room_for_services - 3);
  SECTION("one that goes") {
    agent.tables.apply(Batch::changes, {change(fresh), change("old", {})});
    CHECK(lines(kernel) == clean_lines({change(fresh)}));
  }
  SECTION("one that needs fewer, before") {
    agent.tables.apply(Batch::changes, {change(few), change(fresh)});
    CHECK(lines(kernel) == clean_lines({change(few), change(fresh)}));
  }
  SECTION("one that needs fewer, after") {
    agent.tables.apply(Batch::changes, {change(fresh), change(few)});
    CHECK(lines(kernel) == clean_lines({change(few), change(fresh)}));
  }
  SECTION("its own former ones") {
    const auto others = restricted("old", 1, 101, 100 + room_for_services);
    agent.tables.apply(Batch::changes, {change(others)});
    CHECK(lines(kernel) == clean_lines({change(others)}));
  }
  CHECK(agent.tables.complete());
  CHECK(agent.complaints.empty());
}

TEST_CASE("REL-157 clients whose range has no room are denied, also those of a service that was open") {
  FakeKernel kernel;
  Agent agent(kernel);
  agent.tables.apply(Batch::whole,
                     {change(restricted("big", 1, 1, room_for_services)), change(service("web", 2, {1, 2}))});
  CHECK(service_at(kernel, 2).policy.source_ranges == LB_NO);
  agent.tables.apply(Batch::changes, {change(restricted("web", 2, 101, 102))});
  CHECK(service_at(kernel, 2).policy.source_ranges == LB_YES);
  CHECK(cluster_of(kernel, 2) == std::multiset<std::uint8_t>{1});
  CHECK(kernel.ranges.entries.size() == room_for_services);
  REQUIRE(agent.complaints.size() == 1);
  CHECK(agent.complaints[0].find("denied") != std::string::npos);
  CHECK(agent.tables.failed("default/web"));
  agent.tables.apply(Batch::changes, {change("big", {})});
  agent.tables.retry();
  CHECK(agent.tables.complete());
  CHECK(kernel.ranges.entries.size() == 2);
}

TEST_CASE("REL-157 a service that keeps its backends for lack of room obeys its new source ranges") {
  FakeKernel kernel({.slots = 4});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1, 2, 3}))});
  auto plan = restricted("web", 1, 101, 102);
  Backends many;
  for (std::uint8_t last = 1; last <= 9; ++last) {
    many.push_back(backend(last));
  }
  plan->backends = many;
  agent.tables.apply(Batch::changes, {change(plan)});
  agent.settle();
  CHECK(agent.tables.failed("default/web"));
  CHECK(cluster_of(kernel, 1) == std::multiset<std::uint8_t>{1, 2, 3});
  CHECK(service_at(kernel, 1).policy.source_ranges == LB_YES);
  CHECK(kernel.ranges.entries.size() == 2);
  CHECK(agent.tables.repair().empty());  // that is how it is to be
  CHECK(service_at(kernel, 1).policy.source_ranges == LB_YES);
}

TEST_CASE(
    "REL-156 the node's ranges are written while services have filled the table, and it is said if not") {
  FakeKernel kernel;
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(restricted("big", 1, 1, room_for_services))});
  const auto prefix = [](std::uint8_t last) { return lb::k8s::Prefix{address(9, last), 128}; };
  agent.tables.set_ranges(LB_XFRM_RANGES, {prefix(1)});
  CHECK(agent.tables.has_written(LB_XFRM_RANGES));
  CHECK(agent.complaints.empty());
  agent.tables.set_ranges(LB_XFRM_RANGES, {prefix(1), prefix(2)});
  CHECK_FALSE(agent.tables.has_written(LB_XFRM_RANGES));
  CHECK(agent.complaints.size() == 1);
  CHECK_FALSE(agent.tables.complete());
  agent.tables.apply(Batch::changes, {change(restricted("big", 1, 1, 3))});  // and no retry is needed
  CHECK(agent.tables.has_written(LB_XFRM_RANGES));
  CHECK(agent.tables.complete());
}

TEST_CASE("a frontend whose new service does not fit leaves a service that went") {
  FakeKernel kernel({.slots = 2});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("old", 1, {1}))});
  agent.tables.apply(Batch::changes, {change("old", {}), change(service("new", 1, {2, 3, 4}))});
  agent.settle();
  CHECK(kernel.frontends.entries.empty());
  CHECK(agent.complaints.size() == 1);
}

TEST_CASE("SEM-81 a service that does not fit keeps its backends and is named once; the others proceed") {
  FakeKernel kernel({.slots = 8});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("big", 1, {1, 2})), change(service("small", 2, {1}))});
  agent.tables.apply(Batch::changes,
                     {change(service("big", 1, {1, 2, 3, 4, 5, 6, 7})), change(service("small", 2, {1, 2}))});
  agent.settle();
  CHECK(cluster_of(kernel, 1) == std::multiset<std::uint8_t>{1, 2});
  CHECK(cluster_of(kernel, 2) == std::multiset<std::uint8_t>{1, 2});
  REQUIRE(agent.complaints.size() == 1);
  CHECK(agent.complaints[0].find("--max-slots") != std::string::npos);
  agent.tables.retry();
  agent.settle();
  CHECK(agent.complaints.size() == 1);
  CHECK(agent.tables.retry_in() == std::chrono::milliseconds(200));
  agent.tables.apply(Batch::changes, {change(service("big", 1, {1, 2, 3}))});
  agent.settle();
  CHECK(cluster_of(kernel, 1) == std::multiset<std::uint8_t>{1, 2, 3});
  CHECK(agent.tables.complete());
}

TEST_CASE("SEM-59: one service that the kernel refuses, alone or at each retry, is not all") {
  FakeKernel kernel;
  Agent agent(kernel);
  auto& faults = kernel.faults;
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1}))});
  CHECK_FALSE(agent.tables.refuses_all());
  faults.fail_at = faults.writes;
  agent.tables.apply(Batch::changes, {change(service("db", 2, {1}))});
  CHECK(agent.tables.failed("default/db"));
  CHECK_FALSE(agent.tables.refuses_all());
  faults.fail_at = faults.writes;
  agent.tables.retry();
  CHECK(agent.tables.failed("default/db"));
  CHECK_FALSE(agent.tables.refuses_all());
  agent.tables.retry();
  CHECK(agent.tables.complete());

  faults.error = make_error_code(boost::system::errc::argument_list_too_long);
  faults.fail_all = true;
  agent.tables.apply(Batch::changes, {change(service("ntp", 4, {1}))});
  CHECK(agent.tables.failed("default/ntp"));
  CHECK_FALSE(agent.tables.refuses_all());  // it does not fit
}

TEST_CASE("SEM-59: a kernel that takes no write is noticed, and also that it takes one again") {
  FakeKernel kernel;
  Agent agent(kernel);
  auto& faults = kernel.faults;
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1}))});
  const auto before = lines(kernel);
  faults.fail_all = true;
  agent.tables.apply(Batch::changes, {change(service("db", 2, {1}))});
  CHECK(agent.tables.refuses_all());
  agent.tables.retry();
  CHECK(agent.tables.refuses_all());
  agent.tables.apply(Batch::changes, {change(service("dns", 3, {1})), change(service("web", 1, {1, 2}))});
  CHECK_FALSE(agent.tables.refuses_all());  // endpoints take no system call
  agent.tables.retry();
  CHECK(agent.tables.refuses_all());
  faults.fail_all = false;
  agent.tables.apply(Batch::changes, {change("dns", {}), change(service("web", 1, {1}))});
  faults.fail_at = faults.writes;
  agent.tables.retry();
  CHECK(agent.tables.failed("default/db"));
  CHECK_FALSE(agent.tables.refuses_all());
  agent.tables.apply(Batch::changes, {change("db", {})});
  CHECK(agent.tables.complete());
  CHECK(lines(kernel) == before);
}

TEST_CASE("SEM-59: a kernel that has taken no write yet refuses all") {
  FakeKernel kernel;
  Agent agent(kernel);
  kernel.faults.fail_all = true;
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1}))});
  CHECK(agent.tables.refuses_all());
  kernel.faults.fail_all = false;
  agent.tables.retry();
  CHECK_FALSE(agent.tables.refuses_all());
}
