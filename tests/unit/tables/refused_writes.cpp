// What Tables keeps, says and tries again when a table is full or the kernel refuses a write.
#include <catch2/catch_test_macros.hpp>
#include <set>

#include "tests/unit/tables/fakes.hpp"

using lb::agent::Batch;
using namespace lb::tables_test;

TEST_CASE("SEM-81 a set that does not fit gives back what the other one took") {
  FakeKernel kernel({.slots = 10});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1, 2}))});
  const auto plan = service("web", 1, {1, 2, 3, 4, 5});
  edit_backends(plan, [](auto& backends) {
    for (auto& backend : backends) backend.in_local = true;
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
