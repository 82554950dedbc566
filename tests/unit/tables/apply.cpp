// SPDX-License-Identifier: Apache-2.0
// What Tables writes, keeps, retires and reuses, tested with fakes of the kernel.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <set>

#include "tests/unit/tables/fakes.hpp"

using lb::agent::Batch;
using namespace lb::tables_test;

TEST_CASE("a service appears whole: name, backends, set, frontend") {
  FakeKernel kernel;
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1, 2, 3}))});
  REQUIRE(lines(kernel) ==
          std::vector<std::string>{
              "frontend 10.0.0.1:80/TCP ClusterIP default/web",
              "service default/web TCP IPv4 cluster=3 local=0 internal=cluster external=cluster "
              "empty=reject/reject cluster: 10.0.1.1:8080 10.0.1.2:8080 10.0.1.3:8080 local:"});
  CHECK(agent.tables.complete());
  CHECK(agent.grace.waiting.empty());
}

TEST_CASE("nothing is written before the first batch, nor for a plan that is there already") {
  FakeKernel kernel;
  Agent agent(kernel);
  agent.tables.set_addresses({{.address = address(9, 1), .kind = LB_NODE_PORT_ADDRESS}});
  CHECK(kernel.faults.writes == 0);
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1, 2, 3}))});
  CHECK(kernel.addresses.entries.size() == 2);
  const int writes = kernel.faults.writes;
  const lb_service before = service_at(kernel, 1);
  agent.tables.apply(Batch::changes, {change(service("web", 1, {1, 2, 3}))});
  CHECK(kernel.faults.writes == writes);
  CHECK(service_at(kernel, 1).cluster.first == before.cluster.first);
  CHECK(agent.grace.waiting.empty());
}

TEST_CASE(
    "an endpoint change is a new extent and no system call, and the old one is reused after a grace period") {
  FakeKernel kernel({.slots = 6});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1, 2, 3}))});
  const int writes = kernel.faults.writes;
  agent.tables.apply(Batch::changes, {change(service("web", 1, {1, 4, 3}))});
  CHECK(kernel.faults.writes == writes);
  CHECK(service_at(kernel, 1).cluster.first == 3);
  CHECK(cluster_of(kernel, 1) == std::multiset<std::uint8_t>{1, 3, 4});

  agent.tables.apply(Batch::changes, {change(service("web", 1, {5, 4, 3}))});
  CHECK(cluster_of(kernel, 1) == std::multiset<std::uint8_t>{1, 3, 4});
  CHECK_FALSE(agent.tables.complete());
  CHECK_FALSE(agent.tables.retry_in());
  agent.grace.pass();
  CHECK(cluster_of(kernel, 1) == std::multiset<std::uint8_t>{3, 4, 5});
  CHECK(agent.tables.complete());
  CHECK(agent.complaints.empty());
}

TEST_CASE("a backend that left is ended, and its id waits for grace and for the flows that name it") {
  FakeKernel kernel({.backends = 4});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1, 2, 3}))});
  agent.tables.apply(Batch::changes, {change(service("web", 1, {1, 2}))});
  const lb_backend ended = kernel.backends.load(3);
  CHECK((ended.service == 1 && ended.serving == LB_NO && ended.in_cluster == LB_NO));

  agent.sweeper.named.add(3, 1);
  agent.tables.apply(Batch::changes, {change(service("web", 1, {1, 2, 7}))});
  CHECK(cluster_of(kernel, 1) == std::multiset<std::uint8_t>{1, 2});
  agent.settle();
  CHECK(cluster_of(kernel, 1) == std::multiset<std::uint8_t>{1, 2});
  REQUIRE(agent.complaints.size() == 1);
  CHECK(agent.complaints[0].starts_with("lb_backends is full"));
  CHECK(agent.tables.retry_in() == std::chrono::milliseconds(100));

  agent.sweeper.named = {};
  agent.tables.retry();
  agent.settle();
  CHECK(cluster_of(kernel, 1) == std::multiset<std::uint8_t>{1, 2, 7});
  CHECK(agent.tables.complete());
  CHECK(agent.complaints.size() == 1);
}

TEST_CASE(
    "SEM-81 a service that does not fit, with an endpoint that came back, keeps its backends and is named") {
  FakeKernel kernel({.backends = 4});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1, 2, 3}))});
  agent.tables.apply(Batch::changes, {change(service("web", 1, {1, 2}))});
  const bool has_flows = GENERATE(true, false);
  if (has_flows) {
    agent.sweeper.named.add(3, 1);
  }
  agent.tables.apply(Batch::changes, {change(service("web", 1, {1, 2, 3, 7}))});
  agent.settle();
  CHECK(cluster_of(kernel, 1) == std::multiset<std::uint8_t>{1, 2});
  CHECK(kernel.backends.load(3).serving == LB_NO);
  CHECK(kernel.backends.load(3).service == (has_flows ? 1 : 0));
  REQUIRE(agent.complaints.size() == 1);
  CHECK(agent.complaints[0].starts_with("lb_backends is full"));
  CHECK(agent.tables.failed("default/web"));

  agent.tables.apply(Batch::changes, {change(service("web", 1, {1, 2, 3}))});
  agent.settle();
  CHECK(cluster_of(kernel, 1) == std::multiset<std::uint8_t>{1, 2, 3});
  CHECK(kernel.backends.load(3).serving == LB_YES);
  CHECK(agent.tables.complete());
}

TEST_CASE("an endpoint that comes back while its id waits has the same id again") {
  FakeKernel kernel;
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1, 2, 3}))});
  agent.tables.apply(Batch::changes, {change(service("web", 1, {1, 3}))});
  agent.tables.apply(Batch::changes, {change(service("web", 1, {1, 2, 3}))});
  const lb_set set = service_at(kernel, 1).cluster;
  CHECK(kernel.slots.load(set.first + 1) == 2);
  CHECK(kernel.backends.load(2).serving == LB_YES);
  agent.tables.apply(Batch::changes, {change(service("web", 1, {1, 2, 3})), change(service("new", 2, {9}))});
  agent.settle();
  CHECK(used(kernel, agent.tables) == Used{.names = 2, .backends = 4, .slots = 4});
}

TEST_CASE("a service that goes loses its frontends, its number waits, and its name says so") {
  FakeKernel kernel({.services = 2});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1}))});
  agent.tables.apply(Batch::changes, {change("web", {})});
  CHECK(lines(kernel).empty());
  CHECK(kernel.names.get(1)->retired == LB_YES);
  agent.tables.apply(Batch::changes, {change(service("other", 1, {1}))});
  CHECK(lines(kernel).empty());
  agent.settle();
  CHECK(lines(kernel) == clean_lines({change(service("other", 1, {1}))}));
  CHECK(agent.complaints.empty());
}

TEST_CASE("REL-81 a number waits as long as anything names it or one of its ids") {
  FakeKernel kernel({.services = 2});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1}))});
  agent.tables.apply(Batch::changes, {change("web", {}), change(service("other", 2, {1}))});
  const bool backend_named = GENERATE(true, false);
  (backend_named ? agent.sweeper.named.backends : agent.sweeper.named.services) = {false, true};
  agent.settle();
  CHECK(lines(kernel).empty());
  CHECK(kernel.names.get(1)->retired == LB_YES);
  CHECK(kernel.backends.load(1).service == (backend_named ? 1 : 0));
  agent.sweeper.named = {};
  agent.tables.retry();
  agent.settle();
  CHECK(lines(kernel) == clean_lines({change(service("other", 2, {1}))}));
}

TEST_CASE("REL-81 the next service with a number inherits nothing of the former one") {
  FakeKernel kernel({.services = 2});
  Agent agent(kernel);
  auto old = service("web", 1, {1, 2});
  old->policy.source_ranges = LB_YES;
  old->source_ranges = {{.address = address(7, 0), .length = 120}};
  old->policy.external = LB_LOCAL;
  old->policy.local_empty = LB_DROP;
  old->affinity_seconds = 10800;
  agent.tables.apply(Batch::whole, {change(old)});
  const auto next = change(service("other", 1, {2}));
  agent.tables.apply(Batch::changes, {change("web", {})});
  agent.tables.apply(Batch::changes, {next});
  agent.settle();
  CHECK(lines(kernel) == clean_lines({next}));
  CHECK(service_at(kernel, 1).affinity_seconds == 0);
  CHECK(service_at(kernel, 1).policy.source_ranges == LB_NO);
}

TEST_CASE("REL-81 a retired id whose entry another program overwrote is freed once") {
  FakeKernel kernel({.backends = 5});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1, 2})), change(service("api", 2, {3}))});
  agent.tables.apply(Batch::changes, {change(service("web", 1, {1})), change("api", {})});
  REQUIRE(kernel.backends.load(2).address[15] == 2);
  auto foreign = kernel.backends.load(2);
  foreign.service = GENERATE(0U, 2U, 7U);
  kernel.backends.store(2, foreign);
  agent.tables.retry();
  agent.settle();
  CHECK(used(kernel, agent.tables) == Used{.names = 1, .backends = 1, .slots = 1});
  CHECK(agent.tables.fills()[1].retired == 0);
  CHECK(agent.tables.fills()[2].retired == 0);

  agent.tables.apply(Batch::changes, {change(service("web", 1, {1, 4, 5, 6}))});
  CHECK(agent.tables.complete());
  CHECK(cluster_of(kernel, 1) == std::multiset<std::uint8_t>{1, 4, 5, 6});
  agent.tables.apply(Batch::changes, {change(service("web", 1, {1}))});
  agent.tables.retry();
  agent.settle();
  CHECK(used(kernel, agent.tables) == Used{.names = 1, .backends = 1, .slots = 1});
}

TEST_CASE("a frontend passes to another service by one update, never by a hole") {
  FakeKernel kernel;
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("old", 1, {1})), change(service("new", 0, {2}))});
  const int writes = kernel.faults.writes;
  agent.tables.apply(Batch::changes, {change(service("old", 0, {1})), change(service("new", 1, {2}))});
  CHECK(kernel.faults.writes == writes + 1);
  CHECK(lines(kernel) == clean_lines({change(service("old", 0, {1})), change(service("new", 1, {2}))}));
}

TEST_CASE(
    "what is written is not looked at again, and a frontend that another took comes back when that one "
    "goes") {
  FakeKernel kernel;
  Agent agent(kernel);
  const auto web = service("web", 1, {1});
  const auto rival = service("rival", 1, {2});
  agent.tables.apply(Batch::whole, {change(web)});
  const auto alone = lines(kernel);
  const int writes = kernel.faults.writes;
  agent.tables.apply(Batch::changes, {change(web)});
  CHECK(kernel.faults.writes == writes);
  agent.tables.apply(Batch::changes, {change(rival)});
  CHECK(lines(kernel) != alone);
  agent.tables.apply(Batch::changes, {change(web)});
  agent.tables.apply(Batch::changes, {change("rival", {})});
  agent.settle();
  CHECK(lines(kernel) == alone);
}

TEST_CASE("a large service that releases frontends in parts takes none from another service") {
  FakeKernel kernel;
  Agent agent(kernel);
  const auto large = [](std::initializer_list<int> frontends, bool changed) {
    auto plan = service("large", 0, {1});
    for (const int last : frontends) {
      plan->frontends.push_back({address(0, static_cast<std::uint8_t>(last)), 80, LB_EXTERNAL_IP});
    }
    plan->policy.source_ranges = changed ? LB_YES : LB_NO;
    return change(plan);
  };
  agent.tables.apply(Batch::whole, {large({1, 2, 3}, false)});
  const auto small = change(service("small", 2, {2}));
  agent.tables.apply(Batch::changes, {small});
  agent.tables.apply(Batch::changes, {large({2, 3}, true)});
  agent.tables.apply(Batch::changes, {large({3}, true)});
  agent.settle();
  CHECK(lines(kernel) == clean_lines({large({3}, true), small}));
}

TEST_CASE("slots follow the weights, reduced to the smallest numbers; weight 0 drains") {
  const auto plan = service("web", 1, {});
  plan->backends = Backends{backend(1, 10), backend(2, 20), backend(3, 0), backend(4, 30)};
  FakeKernel kernel;
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(plan)});
  CHECK(cluster_of(kernel, 1) == std::multiset<std::uint8_t>{1, 2, 2, 4, 4, 4});
  const lb_backend draining = kernel.backends.load(3);
  CHECK((draining.address[15] == 3 && draining.in_cluster == LB_NO && draining.serving == LB_YES));
  const auto equal = service("web", 1, {});
  equal->backends = Backends{backend(1, 10), backend(2, 10)};
  agent.tables.apply(Batch::changes, {change(equal)});
  CHECK(cluster_of(kernel, 1) == std::multiset<std::uint8_t>{1, 2});
  CHECK(kernel.backends.load(2).weight == 10);
}

TEST_CASE("REL-158 weights of a large set give way to its budget of slots, and the policy says how much") {
  FakeKernel kernel({.backends = 4096, .slots = 16384});
  Agent agent(kernel);
  const auto plan = service("web", 1, {});
  const auto with = [&](std::uint8_t heavy, std::uint8_t light) {
    const auto next = std::make_shared<lb::agent::ServicePortPlan>(*plan);
    Backends backends;
    for (unsigned at = 0; at < 1000; ++at) {
      auto one = backend(static_cast<std::uint8_t>(at), at % 2 == 0 ? heavy : light);
      one.address.bytes[13] = static_cast<std::uint8_t>(at >> 8U);
      backends.push_back(one);
    }
    next->backends = backends;
    return next;
  };
  agent.tables.apply(Batch::whole, {change(with(100, 99))});
  CHECK(service_at(kernel, 1).cluster.count == 1000);
  CHECK(service_at(kernel, 1).policy.weight_error == 1);
  CHECK(agent.tables.repair().empty());
  agent.tables.apply(Batch::changes, {change(with(100, 33))});
  agent.settle();
  CHECK(service_at(kernel, 1).cluster.count == 2000);  // three to one
  CHECK(service_at(kernel, 1).policy.weight_error == 1);
  agent.tables.apply(Batch::changes, {change(with(90, 30))});
  agent.settle();
  CHECK(service_at(kernel, 1).cluster.count == 2000);
  CHECK(service_at(kernel, 1).policy.weight_error == 0);
  CHECK(agent.tables.complete());
}

TEST_CASE("the local set, policy and affinity are published too, and a set that empties goes last") {
  FakeKernel kernel;
  Agent agent(kernel);
  const auto plan = service("web", 1, {1, 2});
  plan->policy.external = LB_LOCAL;
  plan->policy.local_empty = LB_DROP;
  plan->affinity_seconds = 10800;
  edit_backends(plan, [](auto& backends) { backends[1].in_local = true; });
  agent.tables.apply(Batch::whole, {change(plan)});
  const lb_service found = service_at(kernel, 1);
  CHECK((found.local.count == 1 && found.affinity_seconds == 10800 && found.policy.external == LB_LOCAL));
  CHECK(kernel.backends.load(kernel.slots.load(found.local.first)).address[15] == 2);
  const auto empty = service("web", 1, {});
  agent.tables.apply(Batch::changes, {change(empty)});
  CHECK(service_at(kernel, 1).cluster.count == 0);
  CHECK(service_at(kernel, 1).local.count == 0);
}

TEST_CASE("source ranges are there before the policy asks for them, and change without a gap") {
  FakeKernel kernel;
  Agent agent(kernel);
  const auto plan = service("web", 1, {1});
  plan->policy.source_ranges = LB_YES;
  plan->source_ranges = {{.address = address(5, 0), .length = 120},
                         {.address = address(6, 0), .length = 120}};
  kernel.faults.fail_at = 2;
  agent.tables.apply(Batch::whole, {change(plan)});
  CHECK(service_at(kernel, 1).policy.source_ranges == LB_YES);  // REL-157: one client fewer, not all of them
  CHECK(kernel.ranges.entries.size() == 1);
  CHECK(agent.complaints.size() == 1);
  CHECK_FALSE(agent.tables.complete());
  agent.tables.retry();
  CHECK(service_at(kernel, 1).policy.source_ranges == LB_YES);
  CHECK(lines(kernel).at(1) == "range default/web 10.0.5.0/120");
  CHECK(kernel.ranges.entries.size() == 2);

  auto next = std::make_shared<lb::agent::ServicePortPlan>(*plan);
  next->source_ranges[0].length = 121;
  const int writes = kernel.faults.writes;
  agent.tables.apply(Batch::changes, {change(next)});
  CHECK(kernel.faults.writes == writes + 2);
  CHECK(lines(kernel) == clean_lines({change(next)}));
  agent.tables.apply(Batch::changes, {change("web", {})});
  CHECK(kernel.ranges.entries.empty());
  CHECK(agent.tables.complete());
}

TEST_CASE("a whole batch removes what it does not name") {
  FakeKernel kernel;
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("a", 1, {1})), change(service("b", 2, {2}))});
  agent.tables.apply(Batch::whole, {change(service("b", 2, {2}))});
  CHECK(lines(kernel) == clean_lines({change(service("b", 2, {2}))}));
}

TEST_CASE("this node's addresses are followed, one write each") {
  FakeKernel kernel;
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {});
  agent.tables.set_addresses({{address(9, 1), LB_NODE_PORT_ADDRESS}, {address(9, 2), LB_NODE_ADDRESS}});
  const int writes = kernel.faults.writes;
  kernel.faults.fail_at = writes;
  agent.tables.set_addresses({{address(9, 2), LB_NODE_ADDRESS}, {address(9, 3), LB_NODE_ADDRESS}});
  CHECK(kernel.faults.writes == writes + 2);
  CHECK(agent.complaints.size() == 1);
  REQUIRE(agent.tables.retry_in());
  agent.tables.retry();
  CHECK(kernel.faults.writes == writes + 3);
  CHECK(kernel.addresses.entries.size() == 2);
  CHECK_FALSE(agent.tables.retry_in());
}

TEST_CASE("more is retired than is free: the flow tables are swept without being asked, and memory returns") {
  FakeKernel kernel({.services = 8, .backends = 64});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {});
  for (int round = 0; round < 100; ++round) {
    agent.tables.apply(Batch::changes, {change(service("web", 1, {1, 2, 3}))});
    agent.settle();
    REQUIRE(lines(kernel) == clean_lines({change(service("web", 1, {1, 2, 3}))}));
    agent.tables.apply(Batch::changes, {change("web", {})});
    agent.settle();
  }
  CHECK(agent.complaints.empty());
  CHECK(agent.sweeper.count >= 10);
  CHECK(agent.tables.fills()[3].used == 0);
}

TEST_CASE("figures of service ports: what is planned, what the maps have, and what was left out") {
  FakeKernel kernel({.backends = 4});
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1, 2})), change(service("api", 2, {3}))});
  CHECK(agent.tables.services(0).first.empty());
  const auto [some, left_out] = agent.tables.services(1);
  REQUIRE(some.size() == 1);
  CHECK(some[0].key.name == "default/api");
  CHECK(left_out == 1);

  agent.tables.apply(Batch::changes, {change(service("web", 1, {1, 2, 4, 5}))});
  agent.settle();
  agent.tables.apply(Batch::changes, {change(service("new", 3, {6, 7}))});
  CHECK(agent.tables.failed("default/web"));
  CHECK_FALSE(agent.tables.failed("default/api"));
  const auto all = agent.tables.services(10).first;
  REQUIRE(all.size() == 3);
  CHECK((all[0].cluster.eligible == 1 && all[0].cluster.programmed == 1));
  CHECK((all[1].key.name == "default/new" && all[1].cluster.eligible == 2 && all[1].cluster.programmed == 0));
  CHECK((all[2].cluster.eligible == 4 && all[2].cluster.programmed == 2));
  CHECK_FALSE(all[2].local);
}

TEST_CASE("figures of the local set, of extents, and of what is given up") {
  FakeKernel kernel;
  Agent agent(kernel);
  const auto plan = service("web", 1, {1, 2, 3});
  plan->policy.external = LB_LOCAL;
  edit_backends(plan, [](auto& backends) {
    backends[0].in_local = true;
    backends[1].weight = 0;
  });
  agent.tables.apply(Batch::whole, {change(plan)});
  const auto figures = agent.tables.services(1).first;
  REQUIRE(figures.size() == 1);
  CHECK((figures[0].cluster.eligible == 2 && figures[0].cluster.programmed == 2));
  REQUIRE(figures[0].local);
  CHECK((figures[0].local->eligible == 1 && figures[0].local->programmed == 1));
  CHECK(agent.tables.extents().used == 2);
  CHECK(agent.tables.extents().longest_free == kernel.slots.size() - 3);

  agent.tables.apply(Batch::changes, {change("web", {})});
  CHECK(agent.tables.extents().used == 0);
  const auto fills = agent.tables.fills();
  CHECK(fills[1].retired == 1);
  CHECK(fills[2].retired == 3);
  CHECK(fills[3].retired == 3);
  CHECK_FALSE(fills[0].retired);
  agent.settle();
  CHECK(agent.tables.fills()[3].retired == 0);
}
