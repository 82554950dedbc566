// SPDX-License-Identifier: Apache-2.0
// Which service ports get tables for consistent selection, if there are not enough for all (REL-96).
#include "agent/plan/consistent_budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/plan/cluster.hpp"
#include "build.hpp"
#include "cluster_record.hpp"
#include "tests/lib/seed.hpp"

namespace lb::test {
namespace {

using Tables = std::vector<std::size_t>;
using Names = std::set<std::string>;

struct Budget {
  explicit Budget(std::size_t tables) : budget(tables) {}
  Names ask(const std::string& service, std::int64_t created, Tables tables_of_ports) {
    return budget.ask(service, created, std::move(tables_of_ports), work);
  }
  [[nodiscard]] std::size_t granted(const std::string& service) const { return budget.granted(service); }

  agent::ConsistentBudget budget;
  agent::WorkBudget work{agent::WorkBudget::unlimited};
};

/// The rule, implemented simply: a walk over all services, the oldest first.
std::map<std::string, std::size_t> by_the_rule(
    std::size_t tables, const std::map<std::pair<std::int64_t, std::string>, Tables>& asks) {
  std::map<std::string, std::size_t> granted;
  std::size_t left = tables;
  for (const auto& [rank, ports] : asks) {
    auto mine = std::min(left, tables / 4);
    for (const std::size_t port : ports) {
      if (port > mine) {
        break;
      }
      mine -= port;
      left -= port;
      ++granted[rank.second];
    }
  }
  return granted;
}

TEST_CASE("older services come first, whatever was listed first, and none gets more than a quarter") {
  Budget budget(16);
  CHECK(budget.ask("young", 30, Tables(4096, 1)).empty());
  CHECK(budget.granted("young") == 4);
  CHECK(budget.ask("a", 10, Tables(3, 1)).empty());
  CHECK(budget.ask("b", 10, Tables(2, 2)).empty());
  CHECK(budget.ask("c", 20, Tables(4, 1)).empty());
  CHECK(budget.ask("d", 20, {2, 1, 2}) == Names{"young"});
  CHECK(budget.granted("young") == 2);
  CHECK(budget.granted("d") == 2);
  CHECK(budget.ask("e", 0, {1}).empty());
  CHECK(budget.granted("e") == 0);
  CHECK(budget.ask("a", 10, {}) == Names{"e", "young"});
  CHECK(budget.granted("young") == 4);
  CHECK(budget.granted("e") == 1);
  CHECK(budget.granted("a") == 0);
}

TEST_CASE(
    "after any sequence of questions all have what the walk over all of them gives, and changes are named") {
  const auto seed = test::seed();
  for (std::uint32_t run = 0; run < 100; ++run) {
    CAPTURE(seed, run);
    std::mt19937 random(seed + run);
    const std::size_t tables = random() % 30;
    Budget budget(tables);
    std::map<std::pair<std::int64_t, std::string>, Tables> asks;
    std::map<std::string, std::size_t> before;
    for (int step = 0; step < 200; ++step) {
      const auto name = fmt::format("s{}", random() % 12);
      std::erase_if(asks, [&](const auto& ask) { return ask.first.second == name; });
      Tables ports(random() % 5);
      for (auto& port : ports) {
        port = 1 + random() % 2;
      }
      const auto created = static_cast<std::int64_t>(random() % 6);
      const auto age = created == 0 ? std::numeric_limits<std::int64_t>::max() : created;
      if (!ports.empty()) {
        asks[{age, name}] = ports;
      }
      const auto changed = budget.ask(name, created, ports);
      auto wanted = by_the_rule(tables, asks);
      for (int each = 0; each < 12; ++each) {
        const auto other = fmt::format("s{}", each);
        CAPTURE(step, other, tables);
        REQUIRE(budget.granted(other) == wanted[other]);
        REQUIRE(changed.contains(other) == (other != name && wanted[other] != before[other]));
      }
      before = std::move(wanted);
    }
  }
}

TEST_CASE("a question costs what it changes, however many have asked") {
  constexpr std::size_t services = 10'000;
  Budget budget(63);
  for (std::size_t at = 0; at < services; ++at) {  // in order of names, which is independent of age
    budget.ask(fmt::format("s{:05}", at), static_cast<std::int64_t>(1 + at * 7919 % services), {1});
  }
  CHECK(budget.work.spent() < 3 * services);
  const auto before = budget.work.spent();
  budget.ask("s00000", 1, {1});  // unchanged
  CHECK(budget.work.spent() == before);
  CHECK(budget.ask("s00000", 1, {}).size() == 1);
  CHECK(budget.work.spent() - before <= 4);
}

TEST_CASE("without a budget no service port has a table") {
  Budget budget(0);
  budget.ask("a", 1, {1});
  CHECK(budget.granted("a") == 0);
}

TEST_CASE(
    "service ports beyond the budget choose at random, are reported of, and have their tables when there is "
    "room") {
  std::vector<std::string> reported;
  Record record;
  agent::PlanOptions options;
  options.consistent_tables = 4;
  agent::Cluster cluster("this", options, record, [&](const k8s::Complaint& complaint) {
    reported.push_back(complaint.reason);
    CHECK(complaint.event == "ConsistentSelectionUnavailable");
  });
  const auto add = [&](const std::string& name, std::int64_t created, std::size_t ports) {
    auto made = service();
    made.key.name = name;
    made.created = created;
    made.selection = k8s::Selection::consistent;
    made.ports.clear();
    for (std::size_t at = 0; at < ports; ++at) {
      made.ports.push_back(
          {"p" + std::to_string(at), k8s::Protocol::tcp, static_cast<std::uint16_t>(80 + at), 0});
    }
    made.cluster_ips = {address("10.96.0." + std::to_string(created))};
    cluster.upsert(made);
    cluster.flush();
  };
  const auto consistent = [&](const std::string& name) {
    std::size_t count = 0;
    for (const auto& port : record.services.at("default/" + name)) {
      count += port->policy.selection == LB_CONSISTENT ? 1 : 0;
    }
    return count;
  };
  cluster.synced();
  add("two", 2, 2);
  CHECK(consistent("two") == 1);
  REQUIRE(reported.size() == 1);
  CHECK(reported.front().starts_with("1 of its 2 service ports choose backends at random"));
  for (const int age : {3, 4, 5}) {
    add("s" + std::to_string(age), age, 1);
  }
  CHECK(consistent("s5") == 1);
  add("one", 1, 1);
  CHECK(consistent("one") == 1);
  CHECK(consistent("s5") == 0);
  CHECK(reported.size() == 2);
  cluster.erase_service({"default", "two"});
  cluster.flush();
  CHECK(consistent("s5") == 1);
}

TEST_CASE("--selection is for services that do not say how they choose") {
  Record record;
  agent::PlanOptions options;
  options.selection = k8s::Selection::consistent;
  agent::Cluster cluster("this", options, record, [](const k8s::Complaint&) {});
  cluster.synced();
  for (const auto said : {k8s::Selection::unsaid, k8s::Selection::random, k8s::Selection::consistent}) {
    auto made = service();
    made.selection = said;
    cluster.upsert(made);
    cluster.flush();
    const auto& ports = record.services.at("default/" + made.key.name);
    REQUIRE_FALSE(ports.empty());
    CHECK(ports.front()->policy.selection == (said == k8s::Selection::random ? LB_RANDOM : LB_CONSISTENT));
  }
}

}  // namespace
}  // namespace lb::test
