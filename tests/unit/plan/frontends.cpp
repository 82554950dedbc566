// SPDX-License-Identifier: Apache-2.0
// Which of several services gets an address that they all claim (SEM-82, REL-90).
#include "agent/plan/frontends.hpp"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <vector>

#include "build.hpp"

namespace lb::test {
namespace {

agent::PortSpec claiming(const std::string& name, const std::string& text, std::uint16_t port, lb_kind kind) {
  agent::PortSpec spec;
  spec.plan.key = {name, LB_TCP, LB_IPV4};
  spec.plan.frontends = {{address(text), port, kind}};
  return spec;
}

std::string holder(const agent::Frontends& table, const std::vector<agent::PortSpec>& specs) {
  std::string holders;
  for (const auto& spec : specs) {
    if (!table.held(spec.plan.key.name, spec.plan).empty()) {
      holders += spec.plan.key.name + ' ';
    }
  }
  return holders;
}

/// Claims frontends with an unlimited work budget.
agent::Frontends::Changes claim(agent::Frontends& table, const std::string& name, std::int64_t age,
                                const std::vector<agent::PortSpec>& specs) {
  agent::WorkBudget work(agent::WorkBudget::unlimited);
  return table.claim(name, age, specs, work).value();
}

struct Rivals {
  std::string name;
  lb_kind first_kind;
  std::int64_t first_age;
  lb_kind second_kind;
  std::int64_t second_age;
  std::string holder;
  std::string why;
};

const std::vector<Rivals> rivals = {
    {"ClusterIP beats a load balancer", LB_LOAD_BALANCER, 1, LB_CLUSTER_IP, 2, "z ", "its kind comes first"},
    {"load balancer beats an external IP", LB_EXTERNAL_IP, 1, LB_LOAD_BALANCER, 2, "z ",
     "its kind comes first"},
    {"external IP beats a node port", LB_NODE_PORT, 1, LB_EXTERNAL_IP, 2, "z ", "its kind comes first"},
    {"then the older service", LB_EXTERNAL_IP, 2, LB_EXTERNAL_IP, 1, "z ", "it is older"},
    {"an unknown age is the youngest", LB_EXTERNAL_IP, 0, LB_EXTERNAL_IP, 1, "z ", "it is older"},
    {"then the smaller name", LB_EXTERNAL_IP, 1, LB_EXTERNAL_IP, 1, "a ",
     "it is as old, and its name comes first"},
};

TEST_CASE("REL-36: what a place is to those who send there, and which addresses changed") {
  using Use = agent::Frontends::Use;
  const auto at = [](const std::string& text, std::uint16_t port) {
    return agent::Frontends::Key{address(text), port, LB_TCP};
  };
  agent::Frontends table;
  const auto a = claiming("a", "10.96.0.1", 80, LB_CLUSTER_IP);
  const auto b = claiming("b", "192.0.2.1", 80, LB_LOAD_BALANCER);
  const auto c = claiming("c", "0.0.0.0", 30080, LB_NODE_PORT);
  claim(table, "a", 1, std::vector{a});
  claim(table, "b", 1, std::vector{b});
  claim(table, "c", 1, std::vector{c});
  CHECK(table.take_changed() == std::vector{address("10.96.0.1")});
  CHECK(table.use_of(at("10.96.0.1", 81), "b") == Use::cluster_ip);
  CHECK(table.use_of(at("192.0.2.1", 80), "b") == Use::own);
  CHECK(table.use_of(at("192.0.2.1", 80), "a") == Use::none);
  CHECK(table.use_of(at("192.0.2.1", 81), "b") == Use::none);
  CHECK(table.use_of(at("0.0.0.0", 30080), "b") == Use::none);
  claim(table, "a", 2, std::vector{a});  // unchanged
  CHECK(table.take_changed().empty());
  const auto moved = claiming("b", "192.0.2.1", 81, LB_LOAD_BALANCER);
  CHECK(claim(table, "b", 2, std::vector{moved}).external_addresses.size() == 2);
  CHECK(claim(table, "b", 2, std::vector{moved}).external_addresses.empty());
  CHECK(table.use_of(at("192.0.2.1", 80), "b") == Use::none);
  claim(table, "a", 1, {});
  CHECK(table.take_changed() == std::vector{address("10.96.0.1")});
  CHECK(table.use_of(at("10.96.0.1", 80), "b") == Use::none);
}

TEST_CASE("REL-36: an address that stopped being a ClusterIP has changed, even if it is one again") {
  const auto a = claiming("a", "10.96.0.1", 80, LB_CLUSTER_IP);
  const auto b = claiming("b", "10.96.0.1", 81, LB_CLUSTER_IP);
  agent::Frontends table;
  claim(table, "a", 1, std::vector{a});
  claim(table, "a", 1, {});
  CHECK(table.take_changed() == std::vector{address("10.96.0.1")});
  claim(table, "a", 1, std::vector{a});
  static_cast<void>(table.take_changed());
  claim(table, "a", 1, {});
  claim(table, "a", 1, std::vector{a});
  CHECK(table.take_changed() == std::vector{address("10.96.0.1")});
  claim(table, "b", 1, std::vector{b});
  claim(table, "a", 1, {});
  CHECK(table.take_changed().empty());
}

TEST_CASE("REL-36: a ClusterIP is one all the time, also while its service's claims are renewed in turns") {
  auto spec = claiming("a", "10.96.0.1", 80, LB_CLUSTER_IP);
  spec.plan.frontends.push_back({address("10.96.0.1"), 81, LB_CLUSTER_IP});
  agent::Frontends table;
  claim(table, "a", 1, std::vector{spec});
  static_cast<void>(table.take_changed());
  for (int turn = 0;; ++turn) {
    agent::WorkBudget work(1);
    const bool is_done = table.claim("a", 2, std::vector{spec}, work).has_value();  // with another age
    CHECK(table.use_of({address("10.96.0.1"), 82, LB_TCP}, "b") == agent::Frontends::Use::cluster_ip);
    CHECK(table.take_changed().empty());
    if (!is_done) {
      continue;
    }
    CHECK(turn == 3);
    break;
  }
}

TEST_CASE("SEM-145 the stronger claim holds, in whatever order they come, and the message says why") {
  for (const auto& row : rivals) {
    const auto a = claiming("a", "192.0.2.1", 80, row.first_kind);
    const auto z = claiming("z", "192.0.2.1", 80, row.second_kind);
    DYNAMIC_SECTION(row.name) {
      agent::Frontends forwards;
      claim(forwards, "a", row.first_age, std::vector{a});
      const auto touched = claim(forwards, "z", row.second_age, std::vector{z}).touched;
      CHECK(touched == (row.holder == "z " ? std::set<std::string>{"a"} : std::set<std::string>{}));
      CHECK(holder(forwards, {a, z}) == row.holder);
      CHECK(forwards.lost_count() == 1);
      const std::string loser = row.holder == "a " ? "z" : "a";
      CHECK(forwards.lost(loser).ends_with(", because " + row.why));

      agent::Frontends backwards;
      claim(backwards, "z", row.second_age, std::vector{z});
      claim(backwards, "a", row.first_age, std::vector{a});
      CHECK(holder(backwards, {a, z}) == row.holder);
    }
  }
}

TEST_CASE("a late delete never removes the new owner") {
  const auto old = claiming("old", "192.0.2.1", 80, LB_NODE_PORT);
  const auto young = claiming("young", "192.0.2.1", 80, LB_NODE_PORT);
  agent::Frontends table;
  claim(table, "old", 1, std::vector{old});
  claim(table, "young", 2, std::vector{young});
  CHECK(table.lost("young") ==
        "NodePort 192.0.2.1:80/TCP is not served for young: old holds it as NodePort, "
        "because it is older");
  CHECK(claim(table, "old", 1, {}).touched == std::set<std::string>{"young"});
  CHECK(holder(table, {young}) == "young ");
  CHECK(table.lost("young").empty());
  CHECK(table.lost_count() == 0);
  CHECK(claim(table, "old", 1, {}).touched.empty());
  CHECK(holder(table, {young}) == "young ");
}

TEST_CASE("another port, protocol or address is no collision") {
  auto udp = claiming("b", "192.0.2.1", 80, LB_EXTERNAL_IP);
  udp.plan.key.protocol = LB_UDP;
  const std::vector<agent::PortSpec> specs = {claiming("a", "192.0.2.1", 80, LB_EXTERNAL_IP), udp,
                                              claiming("c", "192.0.2.1", 81, LB_EXTERNAL_IP),
                                              claiming("d", "192.0.2.2", 80, LB_EXTERNAL_IP)};
  agent::Frontends table;
  for (const auto& spec : specs) {
    CHECK(claim(table, spec.plan.key.name, 1, std::vector{spec}).touched.empty());
  }
  CHECK(holder(table, specs) == "a b c d ");
}

TEST_CASE("several lost frontends of a Service are one message with a number") {
  auto old = claiming("old", "192.0.2.1", 80, LB_EXTERNAL_IP);
  old.plan.frontends.push_back({address("192.0.2.2"), 80, LB_EXTERNAL_IP});
  old.plan.frontends.push_back({address("192.0.2.3"), 80, LB_EXTERNAL_IP});
  auto young = old;
  young.plan.key.name = "young";
  agent::Frontends table;
  claim(table, "old", 1, std::vector{old});
  claim(table, "young", 2, std::vector{young});
  CHECK(table.lost("young") ==
        "ExternalIP 192.0.2.1:80/TCP is not served for young: old holds it as ExternalIP, because "
        "it is older; 2 more of its frontends are not served either");
  CHECK(table.lost_count() == 3);
}

// A service whose claims all fail is not notified when others change.
TEST_CASE("only those who hold more or less than before are touched") {
  agent::Frontends table;
  const auto claims = [&](const std::string& name, std::int64_t age) {
    return claim(table, name, age, std::vector{claiming(name, "192.0.2.1", 80, LB_EXTERNAL_IP)}).touched;
  };
  CHECK(claims("a", 1).empty());
  CHECK(claims("b", 2).empty());
  CHECK(claims("c", 3).empty());
  CHECK(claim(table, "c", 3, {}).touched.empty());
  CHECK(claims("c", 3).empty());
  CHECK(claim(table, "a", 1, {}).touched == std::set<std::string>{"b"});
  CHECK(claims("a", 1) == std::set<std::string>{"b"});
}

TEST_CASE("changed claims are charged to the turn, and unchanged ones are nearly free") {
  agent::Frontends table;
  std::uint64_t spent = 0;
  const auto claims = [&](const std::string& name, std::int64_t age, unsigned count) {
    agent::PortSpec spec = claiming(name, "192.0.2.1", 80, LB_EXTERNAL_IP);
    for (unsigned at = 1; at < count; ++at) {
      spec.plan.frontends.push_back(
          {address("192.0.2.1"), static_cast<std::uint16_t>(80 + at), LB_EXTERNAL_IP});
    }
    agent::WorkBudget work(agent::WorkBudget::unlimited);
    auto touched = table.claim(name, age, std::vector{spec}, work).value().touched;
    spent = work.spent();
    return touched;
  };
  for (int at = 0; at < 50; ++at) {
    claims("s" + std::to_string(10 + at), 100 - at, 1000);  // each one is older than those before
    CHECK(spent >= 1000);
  }
  CHECK(table.lost_count() == 49'000);
  CHECK(claims("s59", 51, 1000).empty());
  CHECK(spent <= 250);
  agent::WorkBudget work(agent::WorkBudget::unlimited);
  CHECK(table.claim("s59", 51, {}, work).value().touched == std::set<std::string>{"s58"});
  CHECK(work.spent() >= 1000);
  CHECK(table.claim("s20", 90, {}, work).value().touched.empty());
  CHECK(claims("s58", 1000, 1000) == std::set<std::string>{"s57"});  // it is now the youngest
  CHECK(table.lost("s57").empty());
  CHECK(table.lost("s10").ends_with("999 more of its frontends are not served either"));
  CHECK(table.lost_count() == 47'000);
}

}  // namespace
}  // namespace lb::test
