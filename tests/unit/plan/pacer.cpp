// SPDX-License-Identifier: Apache-2.0
// Large plans are written in parts: each part is small, all of them together are the plan, and between parts
// no client is admitted or refused that is not so before or after (REL-93).
#include "agent/plan/pacer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/plan/endpoints.hpp"
#include "agent/plan/plan_parts.hpp"
#include "build.hpp"
#include "cluster_record.hpp"
#include "tests/lib/seed.hpp"

namespace lb::test {
namespace {

using agent::part_towards;
using agent::ServicePlans;
using agent::writes_between;

struct Shape {
  std::size_t ports = 1;
  std::size_t first = 0;  ///< number of the first frontend
  std::size_t frontends = 0;
  std::size_t ranges = 0;
  std::size_t backends = 0;
  lb_selection selection = LB_RANDOM;
};

k8s::Address numbered(std::uint8_t net, std::size_t number) {
  return address(fmt::format("{}.{}.{}.{}", net, number >> 16U, (number >> 8U) & 255U, number & 255U));
}

ServicePlans plans(const Shape& shape) {
  ServicePlans all;
  for (std::size_t port = 0; port < shape.ports; ++port) {
    agent::ServicePortPlan plan;
    plan.key = {fmt::format("a/web:{:04}", port), LB_TCP, LB_IPV4};
    for (std::size_t at = 0; at < shape.frontends; ++at) {
      plan.frontends.push_back({numbered(198, shape.first + at), 80, LB_LOAD_BALANCER});
    }
    for (std::size_t at = 0; at < shape.ranges; ++at) {
      plan.source_ranges.push_back({numbered(10, at), 128});
    }
    plan.policy.source_ranges = shape.ranges > 0 ? LB_YES : LB_NO;
    plan.policy.selection = shape.selection;
    std::vector<agent::BackendPlan> backends;
    for (std::size_t at = 0; at < shape.backends; ++at) {
      backends.emplace_back(numbered(172, at), 8080, LB_ELSEWHERE, true, false, true, 1);
    }
    plan.backends = agent::BackendList(backends);
    all.push_back(std::make_shared<const agent::ServicePortPlan>(std::move(plan)));
  }
  return all;
}

/// A plan with frontends and source ranges has all source ranges of the old or of the new plan.
bool is_safe(const agent::ServicePortPlan& part, const ServicePlans& have, const ServicePlans& want) {
  if (part.frontends.empty() || part.policy.source_ranges == LB_NO) {
    return true;
  }
  const auto covers = [&](const ServicePlans& end) {
    return std::ranges::any_of(end, [&](const auto& plan) {
      return plan->key == part.key && plan->policy.source_ranges == LB_YES &&
             std::ranges::includes(part.source_ranges, plan->source_ranges);
    });
  };
  return covers(have) || covers(want);
}

const std::vector<std::pair<Shape, Shape>> ways = {
    {{.ports = 0}, {.ports = 3, .frontends = 700, .ranges = 90, .backends = 500}},
    {{.ports = 3, .frontends = 700, .ranges = 90, .backends = 500}, {.ports = 0}},
    {{.frontends = 900, .backends = 3}, {.first = 450, .frontends = 900, .backends = 3}},
    {{.frontends = 300, .ranges = 0}, {.frontends = 300, .ranges = 800}},
    {{.frontends = 300, .ranges = 800}, {.frontends = 300, .ranges = 0}},
    {{.frontends = 300, .ranges = 800}, {.first = 200, .frontends = 300, .ranges = 100}},
    {{.ports = 900, .frontends = 1}, {.ports = 300, .first = 1, .frontends = 1}},
    {{.ports = 300, .frontends = 1}, {.ports = 900, .first = 1, .frontends = 1}},
};

TEST_CASE("a large change is made in bounded parts, none of which admits or denies other clients") {
  constexpr std::size_t most = 100;
  for (const auto& [from, to] : ways) {
    const auto start = plans(from);
    const auto want = plans(to);
    auto have = start;
    std::size_t parts = 0;
    while (have != want) {
      REQUIRE(++parts < 200);
      const auto next = part_towards(have, want, most);
      // Backends of a removed port are removed in whole chunks, the last of which may exceed the limit.
      CHECK(writes_between(have, next) <= most + agent::BackendChunk::max_size / 2 + 1);
      for (const auto& port : next) {
        CHECK(is_safe(*port, start, want));
      }
      CHECK(std::ranges::is_sorted(next, {}, [](const auto& port) { return port->key; }));
      have = next;
    }
    CHECK(parts > 1);
  }
}

TEST_CASE("a small change is made at once, and shared chunks cost nothing") {
  const auto have = plans({.ports = 2, .frontends = 50});
  auto want = have;
  CHECK(writes_between(have, want) == 0);
  want[1] = plans({.ports = 2, .frontends = 51})[1];
  CHECK(writes_between(have, want) <= 2);
  CHECK(part_towards(have, want, 100) == want);
}

/// How many ports of the two plans differ.
std::size_t differing(const ServicePlans& have, const ServicePlans& want) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < have.size(); ++at) {
    count += *have[at] == *want[at] ? 0 : 1;
  }
  return count;
}

TEST_CASE("large tables of consistent selection are filled for one port at a time") {
  constexpr std::size_t most = 1024;
  const Shape before{.ports = 8, .frontends = 1, .backends = 999, .selection = LB_CONSISTENT};
  Shape after = before;
  after.backends = 1000;
  auto have = plans(before);
  const auto want = plans(after);
  for (std::size_t port = 0; port < after.ports; ++port) {
    CHECK(writes_between(have, want) > most);
    const auto next = part_towards(have, want, most);
    CHECK(differing(have, next) == 1);
    have = next;
  }
  CHECK(differing(have, want) == 0);
  CHECK(part_towards(have, want, most) == want);

  Shape small = before;
  small.backends = 10;
  Shape grown = before;
  grown.backends = 11;
  CHECK(writes_between(plans(small), plans(grown)) < most);
}

std::size_t backends_of(const ServicePlans& ports) {
  std::size_t count = 0;
  for (const auto& port : ports) {
    count += port->backends.size();
  }
  return count;
}

TEST_CASE("ports whose selection becomes consistent take turns, though their backends stay") {
  constexpr std::size_t most = 1024;
  const Shape random{.ports = 8, .frontends = 1, .backends = 1000};
  Shape consistent = random;
  consistent.selection = LB_CONSISTENT;
  auto have = plans(random);
  const auto want = plans(consistent);
  for (std::size_t port = 0; port < random.ports; ++port) {
    const auto next = part_towards(have, want, most);
    CHECK(differing(have, next) == 1);
    CHECK(next[port] == want[port]);  // not a copy, which would be published once more
    have = next;
  }
  CHECK(have == want);
}

TEST_CASE("a consistent service that goes has no table filled with the backends that are left") {
  constexpr std::size_t most = 64;
  auto have = plans({.frontends = 1, .backends = 3000, .selection = LB_CONSISTENT});
  for (int part = 0; !have.empty(); ++part) {
    REQUIRE(part < 100);
    const auto next = part_towards(have, {}, most);
    if (backends_of(next) != 0 && backends_of(next) != backends_of(have)) {
      CHECK(next.front()->frontends.empty());
      CHECK(next.front()->policy.selection == LB_RANDOM);
    }
    have = next;
  }
}

TEST_CASE("what a table of consistent selection costs follows its number of slots") {
  Shape after{.backends = 101, .selection = LB_CONSISTENT};
  const auto have = plans({.backends = 100, .selection = LB_CONSISTENT});
  const auto writes = [&](std::uint32_t slots) {
    return writes_between(have, plans(after), std::numeric_limits<std::size_t>::max(), slots);
  };
  CHECK(writes(16'381) > std::size_t{101} * 7);
  CHECK(writes(16'381) < std::size_t{101} * 9);
  CHECK(writes(131'071) > std::size_t{101} * 60);
}

agent::PlanChange change(const std::string& service, ServicePlans ports) {
  return {service, std::move(ports)};
}

/// A service port with `count` backends from number `from` on, and one frontend.
ServicePlans with_backends(std::size_t from, std::size_t count, lb_locality locality = LB_ELSEWHERE) {
  std::vector<agent::BackendPlan> backends;
  for (std::size_t at = from; at < from + count; ++at) {
    backends.emplace_back(numbered(172, 100'000 + at), 8080, locality, true, false, true, 1);
  }
  std::ranges::sort(backends, {}, [](const auto& one) { return agent::OrderKey{one.address, one.port}; });
  auto plan = *plans({.frontends = 1}).front();
  plan.backends = agent::BackendList(backends);
  return {std::make_shared<const agent::ServicePortPlan>(std::move(plan))};
}

TEST_CASE("backends that go are a write for two of them, in each part") {
  constexpr std::size_t most = 64;
  auto have = plans({.ports = 2, .backends = 3000});
  CHECK(writes_between(have, {}) == std::size_t{2} * (4 + 3000 / 2));
  for (int part = 0; !have.empty(); ++part) {
    REQUIRE(part < 200);
    const auto next = part_towards(have, {}, most);
    const auto gone = backends_of(have) - backends_of(next);
    CHECK(gone <= 2 * most + agent::BackendChunk::max_size);
    CHECK((gone > 0 || next.size() < have.size()));
    have = next;
  }
}

TEST_CASE("backends of a port that comes are written in parts, before anything reaches them") {
  constexpr std::size_t most = 20;
  const auto want = plans({.frontends = 2, .backends = 5000});
  ServicePlans have;
  int parts = 0;
  for (; have != want; ++parts) {
    REQUIRE(parts < 100);
    const auto next = part_towards(have, want, most);
    CHECK(backends_of(next) - backends_of(have) <= 16 * most);
    if (backends_of(next) < 5000) {
      CHECK(next.front()->frontends.empty());
    }
    have = next;
  }
  CHECK(parts >= 5000 / 16 / static_cast<int>(most));
}

using ByAddress = std::map<k8s::Address, agent::BackendPlan>;

ByAddress by_address(const ServicePlans& plans) {
  ByAddress all;
  for (const auto& backend : plans.front()->backends) {
    all.emplace(backend.address, backend);
  }
  return all;
}

TEST_CASE("backends of a port that serves change in parts, and each part is of both ends") {
  constexpr std::size_t most = 20;
  struct Case {
    ServicePlans from;
    ServicePlans to;
  };
  const std::vector<Case> changes = {
      {with_backends(0, 1000), with_backends(0, 1000, LB_SAME_ZONE)},
      {with_backends(0, 1000), with_backends(500, 1000)},
      {with_backends(0, 3000), with_backends(1500, 3)},
      {with_backends(10, 3), with_backends(0, 3000)},
      {with_backends(0, 1000), with_backends(0, 0)},
  };
  for (const auto& [from, want] : changes) {
    const auto before = by_address(from);
    const auto after = by_address(want);
    auto have = from;
    int parts = 0;
    for (; have != want; ++parts) {
      REQUIRE(parts < 1000);
      const auto next = part_towards(have, want, most);
      const auto& backends = next.front()->backends;
      CHECK(writes_between(have, next) <= most + 8);
      CHECK(next.front()->frontends.size() == 1);
      CHECK(backends.members(LB_CLUSTER).count + (backends_of(want) == 0 ? 1 : 0) > 0);
      const std::vector<agent::BackendPlan> all(backends.begin(), backends.end());
      CHECK(std::ranges::all_of(all, [&](const auto& backend) {
        const auto is_of = [&](const ByAddress& end) {
          const auto found = end.find(backend.address);
          return found != end.end() && found->second == backend;
        };
        return is_of(before) || is_of(after);
      }));
      CHECK(std::ranges::adjacent_find(all, {}, &agent::BackendPlan::address) == all.end());
      have = next;
    }
    CHECK(parts > 1);
  }
}

TEST_CASE(
    "no set is empty meanwhile unless it is before or after, and consistent selection changes at once") {
  const auto from = with_backends(0, 500);
  const auto want = with_backends(1000, 500);  // all added backends sort after all removed ones
  const auto far = part_towards(from, want, 10'000);
  CHECK(far == want);
  for (auto have = from; have != want;) {
    have = part_towards(have, want, 255);
    CHECK(have.front()->backends.members(LB_CLUSTER).count > 0);
  }
  auto plan = *with_backends(0, 5000).front();
  plan.policy.selection = LB_CONSISTENT;
  const ServicePlans consistent{std::make_shared<const agent::ServicePortPlan>(std::move(plan))};
  CHECK(backends_of(part_towards({}, consistent, 100)) == 5000);
}

TEST_CASE("what was reported ahead is in the first batch, as it was reported last") {
  for (const auto how : {agent::FirstBatch::at_once, agent::FirstBatch::in_parts}) {
    Record record;
    agent::Pacer pacer(record, [] {}, 100);
    pacer.pass_first(how);
    std::vector<agent::PlanChange> ahead = {change("a/one", plans({.frontends = 2})),
                                            change("a/large", plans({.frontends = 250})),
                                            change("b/gone", plans({.frontends = 2}))};
    CHECK(pacer.prepare(ahead));
    CHECK(record.batches.empty());
    ahead = {change("a/one", plans({.frontends = 3})), change("a/large", plans({.frontends = 300}))};
    CHECK(pacer.prepare(ahead));
    pacer.apply(agent::Batch::whole, {change("b/gone", {}), change("c/last", plans({.frontends = 1}))});
    CHECK(record.batches.front() == agent::Batch::whole);
    CHECK(record.services.contains("a/one"));
    while (pacer.waits()) {
      pacer.take_turn();
    }
    CHECK(record.services.size() == 3);
    CHECK(record.services.at("a/one").front()->frontends.size() == 3);
    CHECK(record.services.at("a/large").front()->frontends.size() == 300);
    CHECK(record.late_deletes == 0);
    CHECK(std::ranges::count(record.batches, agent::Batch::whole) == 1);
  }
}

TEST_CASE("small changes pass while large ones take turns, and each large one has its own") {
  Record record;
  int asked = 0;
  agent::Pacer pacer(record, [&] { ++asked; }, 100);
  pacer.apply(agent::Batch::whole, {});
  pacer.apply(agent::Batch::changes,
              {change("a/one", plans({.frontends = 250})), change("a/two", plans({.frontends = 150})),
               change("b/small", plans({.frontends = 2}))});
  CHECK(record.services.contains("b/small"));
  CHECK(record.services.size() == 1);
  CHECK(asked == 1);
  CHECK(pacer.waits());
  const auto frontends = [&](const std::string& service) {
    return record.services.contains(service) ? record.services.at(service).front()->frontends.size() : 0;
  };
  pacer.take_turn();
  const auto first = frontends("a/one");
  CHECK(first > 0);
  CHECK(first <= 100);
  CHECK(frontends("a/two") == 0);
  pacer.take_turn();
  CHECK(frontends("a/one") == first);
  CHECK(frontends("a/two") > 0);
  pacer.apply(agent::Batch::changes, {change("b/small", {})});
  CHECK_FALSE(record.services.contains("b/small"));
  for (int turn = 2; pacer.waits(); ++turn) {
    REQUIRE(turn < 20);
    CHECK(asked == turn + 1);
    pacer.take_turn();
  }
  CHECK(frontends("a/one") == 250);
  CHECK(frontends("a/two") == 150);
  pacer.apply(agent::Batch::changes, {change("a/one", {})});
  while (pacer.waits()) {
    pacer.take_turn();
  }
  CHECK_FALSE(record.services.contains("a/one"));
}

TEST_CASE("a first batch is passed on in parts where nothing was before, and at once where something was") {
  std::vector<agent::PlanChange> changes;
  for (int at = 0; at < 50; ++at) {
    changes.push_back(change(fmt::format("a/s{:02}", at), plans({.frontends = 5, .backends = 100})));
  }
  changes.push_back(change("a/large", plans({.frontends = 250})));
  changes.push_back({"a/waits", {}, agent::PlanState::waiting});
  for (const auto how : {agent::FirstBatch::at_once, agent::FirstBatch::in_parts}) {
    Record record;
    agent::Pacer pacer(record, [] {}, 100);
    pacer.pass_first(how);
    pacer.apply(agent::Batch::whole, changes);
    CHECK(pacer.waits() == (how == agent::FirstBatch::in_parts));
    std::size_t turns = 0;
    for (; pacer.waits(); ++turns) {
      REQUIRE(turns < 50);
      const auto before = record.services.size();
      pacer.take_turn();
      CHECK(record.services.size() - before <= 10);
    }
    CHECK((turns > 5) == (how == agent::FirstBatch::in_parts));
    CHECK(record.services.size() == 51);
    CHECK(record.services.at("a/large").front()->frontends.size() == 250);
    CHECK(record.batches.front() == agent::Batch::whole);
    CHECK(std::ranges::count(record.batches, agent::Batch::whole) == 1);
  }
}

TEST_CASE("the plan may change meanwhile: the last one wins") {
  std::mt19937 random(lb::test::seed());
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  Record record;
  agent::Pacer pacer(record, [] {}, 20);
  pacer.apply(agent::Batch::whole, {});
  std::map<std::string, ServicePlans> reported;
  for (int round = 0; round < 300; ++round) {
    const auto service = fmt::format("a/{}", below(3));
    const auto ports = plans({.ports = below(4),
                              .first = below(30),
                              .frontends = below(60),
                              .ranges = below(2) * below(60),
                              .backends = below(50)});
    reported[service] = ports;
    if (ports.empty()) {
      reported.erase(service);
    }
    pacer.apply(agent::Batch::changes, {change(service, ports)});
    for (auto turns = below(6); turns > 0; --turns) {
      pacer.take_turn();
    }
  }
  for (int turn = 0; pacer.waits(); ++turn) {
    REQUIRE(turn < 200);
    pacer.take_turn();
  }
  CHECK(record.services == reported);
}

std::size_t frontends_of(const ServicePlans& plans) {
  std::size_t count = 0;
  for (const auto& plan : plans) {
    count += plan->frontends.size();
  }
  return count;
}

std::size_t ranges_of(const ServicePlans& plans) {
  std::size_t count = 0;
  for (const auto& plan : plans) {
    count += plan->source_ranges.size();
  }
  return count;
}

/// Addresses and ports that lead to the service.
std::set<std::pair<k8s::Address, std::uint16_t>> places(const ServicePlans& plans) {
  std::set<std::pair<k8s::Address, std::uint16_t>> all;
  for (const auto& plan : plans) {
    for (const auto& frontend : plan->frontends) {
      all.emplace(frontend.address, frontend.port);
    }
  }
  return all;
}

TEST_CASE("REL-155 a service that changes all its entries again and again never has more than its limit") {
  constexpr std::size_t limit = 100;
  std::mt19937 random(lb::test::seed());
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  ServicePlans have;
  for (int round = 0; round < 60; ++round) {
    const auto ports = 1 + below(3);
    const auto want = plans({.ports = ports,
                             .first = below(2000),
                             .frontends = limit / ports,
                             .ranges = below(2) * limit / ports,
                             .backends = 1});
    const auto start = places(have);
    const auto target = places(want);
    for (auto turns = 1 + below(8); turns > 0 && have != want; --turns) {
      have = part_towards(have, want, 20, 100, limit);
      CHECK(frontends_of(have) <= limit);
      CHECK(ranges_of(have) <= limit);
      const auto now = places(have);
      CHECK(std::ranges::all_of(
          start, [&](const auto& place) { return !target.contains(place) || now.contains(place); }));
    }
  }
  const auto want = plans({.first = 5000, .frontends = limit, .ranges = limit});
  for (int turns = 0; have != want; ++turns) {
    REQUIRE(turns < 100);
    have = part_towards(have, want, 20, 100, limit);
  }
}

TEST_CASE("REL-155 source ranges that all change stay within the limit, and those in both plans stay") {
  constexpr std::size_t limit = 100;
  const auto from = plans({.frontends = 1, .ranges = limit});
  auto plan = *from.front();
  for (std::size_t at = 10; at < limit; ++at) {
    plan.source_ranges[at] = {numbered(11, at), 128};
  }
  const ServicePlans want{std::make_shared<const agent::ServicePortPlan>(plan)};
  int turns = 0;
  for (auto have = from; have != want; ++turns) {
    REQUIRE(turns < 100);
    have = part_towards(have, want, 20, 100, limit);
    CHECK(ranges_of(have) <= limit);
    CHECK(std::ranges::includes(have.front()->source_ranges,
                                std::vector(plan.source_ranges.begin(), plan.source_ranges.begin() + 10)));
  }
  CHECK(turns > 5);
}

TEST_CASE("REL-155 a plan of more than the limit is reached nevertheless") {
  const auto want = plans({.ports = 2, .frontends = 300, .ranges = 200});
  ServicePlans have;
  for (int turns = 0; have != want; ++turns) {
    REQUIRE(turns < 300);
    have = part_towards(have, want, 20, 100, 100);
  }
  for (int turns = 0; !have.empty(); ++turns) {
    REQUIRE(turns < 300);
    have = part_towards(have, {}, 20, 100, 100);
  }
}

TEST_CASE("REL-155 frontends that pass to another port of the service lead somewhere all the time") {
  const auto renamed = [](const ServicePlans& all, const std::string& name) {
    auto plan = *all.front();
    plan.key.name = name;
    return ServicePlans{std::make_shared<const agent::ServicePortPlan>(std::move(plan))};
  };
  const auto from = plans({.frontends = 500, .ranges = 30, .backends = 100});
  const auto limit = GENERATE(std::size_t{500}, std::size_t{10'000});
  for (const auto* const name : {"a/web:a", "a/web:z"}) {
    const auto want = renamed(from, name);
    const auto all = places(from);
    auto have = from;
    for (int turns = 0; have != want; ++turns) {
      REQUIRE(turns < 200);
      have = part_towards(have, want, 20, 100, limit);
      CHECK(places(have) == all);
    }
  }
}

TEST_CASE("REL-155 the pacer keeps a service within its limit, whatever it wants next") {
  Record record;
  agent::Pacer pacer(record, [] {}, 50, 100, 200);
  pacer.apply(agent::Batch::whole, {});
  for (std::size_t round = 0; round < 40; ++round) {
    pacer.apply(agent::Batch::changes, {change("a/one", plans({.first = round * 200, .frontends = 200}))});
    pacer.take_turn();
    CHECK(frontends_of(record.services["a/one"]) <= 200);
  }
}

}  // namespace
}  // namespace lb::test
