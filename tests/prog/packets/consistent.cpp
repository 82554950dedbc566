// SPDX-License-Identifier: Apache-2.0
// Several balancers before one service: with consistent selection the same tuple gets the same backend on
// every node, whatever the node's own secret, and when a backend is removed hardly any flows but its own
// move.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>

#include "agent/plan/rendezvous.hpp"
#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

constexpr unsigned all_backends = 20;
constexpr std::uint32_t table_size = 16381;
constexpr int flows_each = 1500;  // for each family and protocol

/// A node's own keys, and its view of the service.
struct Node {
  std::uint64_t own_key = 0;      ///< key of random selection
  std::uint64_t cluster_key = 0;  ///< key of consistent selection
  const char* selection = "consistent";
  std::vector<unsigned> backends;  ///< in the order in which this node learned of them
};

using Choices = std::map<Tuple, Endpoint>;

std::vector<unsigned> from_to(unsigned first, unsigned last) {
  std::vector<unsigned> made;
  for (auto number = first; number < last; ++number) {
    made.push_back(number);
  }
  return made;
}

std::string backend_address(int family, unsigned number) {
  return fmt::format("{}{}", family == 4 ? "198.51.100." : "2001:db8:2::", 100 + number);
}

std::string service_name(int family, std::uint8_t protocol) {
  return fmt::format("consistent_{}_{}", protocol, family);
}

/// Writes the slots that the agent computes, with the backend ids of this node.
void add_slots(World& world, const std::string& name, int family, const std::vector<unsigned>& numbers) {
  std::vector<agent::RendezvousMember> members;
  std::map<std::uint32_t, std::string> names;
  for (const auto number : numbers) {
    const auto backend = fmt::format("{}_{}", name, number);
    agent::RendezvousMember member;
    member.address.bytes = address_of(backend_address(family, number));
    member.port = 8080;
    member.id = world.backend(backend);
    names[member.id] = backend;
    members.push_back(member);
  }
  std::vector<std::uint32_t> slots;
  agent::rendezvous_slots(members, table_size, slots);
  Words words = {"cluster", name};
  for (const auto id : slots) {
    words.push_back(names.at(id));
  }
  world.change(words);
}

void add_service(World& world, const Node& node, int family, std::uint8_t protocol) {
  const auto name = service_name(family, protocol);
  world.change({"policy", name, "cluster", "cluster", "reject", "reject"});
  world.change({"selection", name, node.selection});
  for (const auto number : node.backends) {
    world.change({"backend", fmt::format("{}_{}", name, number), name, "elsewhere",
                  backend_address(family, number), "8080"});
  }
  add_slots(world, name, family, node.backends);
  world.change({"frontend", name, "load_balancer", protocol == 6 ? "tcp" : "udp",
                family == 4 ? "198.19.9.1" : "2001:db8:9::1", "80"});
}

Tuple request_of(int family, std::uint8_t protocol, int number) {
  auto client = address_of(family == 4 ? "100.64.0.0" : "2001:db8:aaaa::");
  client[14] = static_cast<std::uint8_t>(number / 250);
  client[15] = static_cast<std::uint8_t>(1 + number % 250);
  return {family,
          protocol,
          {client, static_cast<std::uint16_t>(1024 + number * 37 % 60000)},
          {address_of(family == 4 ? "198.19.9.1" : "2001:db8:9::1"), 80}};
}

/// The backends that this node selects for the flows; the flows are the same for every node.
Choices choices_of(const Node& node) {
  Settings settings;
  settings.flows = settings.unassured = 65536;
  settings.slots = 4 * (table_size + 64);
  World world(settings);
  auto page = world.programs().node.load(0);
  page.choice[LB_RANDOM][0] = node.own_key;
  page.choice[LB_CONSISTENT][0] = node.cluster_key;
  page.secret[0] = node.own_key;
  world.programs().node.store(0, page);
  Choices choices;
  for (const int family : {4, 6}) {
    for (const std::uint8_t protocol : {std::uint8_t{6}, std::uint8_t{17}}) {
      add_service(world, node, family, protocol);
      for (int number = 0; number < flows_each; ++number) {
        const auto request = request_of(family, protocol, number);
        const auto verdict = world.programs().run({.hook = Hook::tc_in, .device = world.device("out0")},
                                                  build(request, {.flags = syn}));
        REQUIRE(verdict.counts[LB_OUTCOME_new_remote] == 1);
        choices[request] = tuple_of(verdict.packet).destination;
      }
    }
  }
  return choices;
}

std::size_t same(const Choices& some, const Choices& others) {
  return static_cast<std::size_t>(std::ranges::count_if(
      some, [&](const auto& choice) { return others.at(choice.first) == choice.second; }));
}

}  // namespace

TEST_CASE("consistent selection: nodes with secrets of their own give the same tuple the same backend") {
  auto reversed = from_to(0, all_backends);
  std::ranges::reverse(reversed);
  const Node one{.own_key = 11, .cluster_key = 77, .backends = from_to(0, all_backends)};
  const auto here = choices_of(one);
  const auto there = choices_of({.own_key = 99, .cluster_key = 77, .backends = reversed});
  CHECK(same(here, there) == here.size());
  // With another cluster's key, or with random selection, only as many choices agree as by chance.
  const auto elsewhere = choices_of({.own_key = 11, .cluster_key = 78, .backends = one.backends});
  CHECK(same(here, elsewhere) < here.size() / 5);
  const Node random{.own_key = 11, .cluster_key = 77, .selection = "random", .backends = one.backends};
  const auto first = choices_of(random);
  auto other_secret = random;
  other_secret.own_key = 99;
  CHECK(same(first, choices_of(other_secret)) < first.size() / 5);
}

TEST_CASE("consistent selection: when backends go, at most 1 % more flows move than were theirs") {
  const auto before = choices_of({.own_key = 1, .cluster_key = 77, .backends = from_to(0, all_backends)});
  const auto after = choices_of({.own_key = 2, .cluster_key = 77, .backends = from_to(2, all_backends)});
  std::size_t theirs = 0;
  for (const auto& [tuple, backend] : before) {
    const auto went = [&, family = tuple.family](unsigned number) {
      return backend.address == address_of(backend_address(family, number));
    };
    theirs += went(0) || went(1) ? 1 : 0;
  }
  const auto moved = before.size() - same(before, after);
  CHECK(theirs > before.size() / all_backends);
  CHECK(moved >= theirs);
  CHECK(moved - theirs <= before.size() / 100);
}

}  // namespace lb::test
