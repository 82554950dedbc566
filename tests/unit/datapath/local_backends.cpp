// SPDX-License-Identifier: Apache-2.0
// How endpoints of this node are reached, and when the kernel is asked again (SEM-141).
#include "agent/datapath/local_backends.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lb::test {
namespace {

using agent::HopKind;
using agent::LocalBackends;
using agent::NextHop;
using agent::ReachedBy;

constexpr std::uint32_t eth0 = 2;
constexpr std::uint32_t pod0 = 7;

k8s::Address address(const std::string& text) { return k8s::Address::parse(text).value(); }

/// The routes of a node whose uplink is eth0; a default route by it.
struct Node {
  std::map<k8s::Address, NextHop> routes;
  std::size_t lookups = 0;
  LocalBackends backends{[this](const k8s::Address& asked) {
    ++lookups;
    const auto route = routes.find(asked);
    return route == routes.end() ? NextHop{eth0, HopKind::gateway} : route->second;
  }};
  LocalBackends::TimePoint now{LocalBackends::memory};

  Node() { backends.set_uplinks({eth0}); }
  ReachedBy ask(const std::string& text) { return backends.ask("default/web", address(text)); }
  std::vector<std::string> check() {
    std::vector<std::string> texts;
    const auto changes = backends.check(now);
    for (const auto& changed : changes.addresses) {
      texts.push_back(changed.text());
    }
    if (changes.forgotten) {
      texts.emplace_back("all");
    }
    return texts;
  }
};

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("SEM-141: an endpoint is reached by an uplink, or by another device") {
  Node node;
  node.routes = {{address("10.244.1.10"), {pod0, HopKind::on_link}},
                 {address("10.0.0.78"), {eth0, HopKind::on_link}},
                 {address("10.0.0.10"), {0, HopKind::on_link}},  // the node's own
                 {address("10.244.2.10"), {eth0, HopKind::encapsulated}}};
  CHECK(node.ask("10.244.1.10") == ReachedBy::device);
  CHECK(node.ask("10.0.0.78") == ReachedBy::uplink);
  CHECK(node.ask("10.244.3.10") == ReachedBy::uplink);  // by a gateway
  CHECK(node.ask("10.0.0.10") == ReachedBy::device);
  CHECK(node.ask("10.244.2.10") == ReachedBy::device);
  CHECK(node.ask("fd00::1") == ReachedBy::uplink);
}

TEST_CASE("SEM-141: each address is looked up once, until routes change") {
  Node node;
  node.check();
  CHECK(node.ask("10.0.0.78") == ReachedBy::uplink);
  CHECK(node.ask("10.0.0.78") == ReachedBy::uplink);
  CHECK(node.ask("10.0.0.79") == ReachedBy::uplink);
  CHECK(node.lookups == 2);
  CHECK(node.check().empty());
  CHECK(node.lookups == 2);
  node.routes[address("10.0.0.78")] = {pod0, HopKind::on_link};
  CHECK(node.ask("10.0.0.78") == ReachedBy::uplink);
  node.backends.note_change();
  CHECK(node.check() == Texts{"10.0.0.78"});
  CHECK(node.ask("10.0.0.78") == ReachedBy::device);
  CHECK(node.check().empty());
  CHECK(node.lookups == 4);
}

TEST_CASE("SEM-141: other uplinks are a change, and without one nothing is looked up") {
  Node node;
  CHECK(node.ask("10.0.0.78") == ReachedBy::uplink);
  node.backends.set_uplinks({eth0});
  node.check();
  const auto before = node.lookups;
  node.backends.set_uplinks({});
  CHECK(node.check() == Texts{"10.0.0.78"});
  CHECK(node.ask("10.0.0.79") == ReachedBy::device);
  CHECK(node.lookups == before);
  node.backends.set_uplinks({eth0});
  CHECK(node.check() == Texts{"10.0.0.78", "10.0.0.79"});
}

namespace {

k8s::Address numbered(std::size_t number) {
  k8s::Address made = address("fd00::");
  made.bytes[13] = static_cast<std::uint8_t>(number >> 16U);
  made.bytes[14] = static_cast<std::uint8_t>(number >> 8U);
  made.bytes[15] = static_cast<std::uint8_t>(number);
  return made;
}

}  // namespace

TEST_CASE("SEM-141: a service has a share of the answers, and all are forgotten now and then to make room") {
  Node node;
  node.check();
  constexpr auto most = LocalBackends::max_answers_of_service;
  for (std::size_t i = 0; i < most; ++i) {
    REQUIRE(node.backends.ask("team-a/many", numbered(i)) == ReachedBy::uplink);
  }
  CHECK(node.check().empty());
  CHECK(node.backends.ask("team-a/many", numbered(most)) == ReachedBy::device);
  CHECK(node.lookups == most);
  CHECK(node.backends.ask("team-b/few", numbered(most)) == ReachedBy::uplink);
  CHECK(node.backends.ask("team-a/many", numbered(most)) == ReachedBy::uplink);  // known by now
  CHECK(node.check() == Texts{"all"});
  CHECK(node.backends.ask("team-a/many", numbered(most + 1)) == ReachedBy::uplink);
  for (std::size_t i = 0; i < most; ++i) {
    static_cast<void>(node.backends.ask("team-a/many", numbered(i)));
  }
  node.backends.note_change();
  CHECK(node.check().empty());  // not again so soon
}

TEST_CASE("SEM-141: the number of all services' answers is limited") {
  Node node;
  std::size_t asked = 0;
  for (int service = 0; asked < LocalBackends::max_answers; ++service) {
    for (std::size_t i = 0; i < LocalBackends::max_answers_of_service; ++i) {
      static_cast<void>(node.backends.ask(std::to_string(service), numbered(asked++)));
    }
  }
  CHECK(node.lookups == asked);
  CHECK(node.ask("10.0.0.78") == ReachedBy::device);
  CHECK(node.lookups == asked);
}

TEST_CASE("SEM-141: many answers are asked for again in turns, each once") {
  Node node;
  node.check();
  constexpr auto of_check = LocalBackends::lookups_of_check;
  constexpr std::size_t count = of_check * 2 + 10;
  for (std::size_t i = 0; i < count; ++i) {
    REQUIRE(node.backends.ask(std::to_string(i / of_check), numbered(i)) == ReachedBy::uplink);
  }
  for (std::size_t i = 0; i < count; ++i) {
    node.routes[numbered(i)] = {pod0, HopKind::on_link};
  }
  node.backends.note_change();
  auto before = node.lookups;
  std::size_t changed = 0;
  for (const auto turn : {of_check, of_check, std::size_t{10}, std::size_t{0}}) {
    changed += node.check().size();
    CHECK(node.lookups - std::exchange(before, node.lookups) == turn);
  }
  CHECK(changed == count);
}

}  // namespace lb::test
