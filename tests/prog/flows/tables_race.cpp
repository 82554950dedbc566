// SPDX-License-Identifier: Apache-2.0
// Tables used on one processor while the other makes the kernel reuse their elements: affinity, and flow
// tables with few buckets (REL-63). No value is used without its check, and no entry stays without its flow's
// other one. SLUICE_LONG=1 runs longer.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/programs/features.hpp"
#include "agent/tables/expiry.hpp"
#include "maps/abi/checks.h"
#include "tests/prog/lib/two_cores.hpp"
#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/maps.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

constexpr std::uint32_t batch = 20'000;  // packets per system call
constexpr std::uint16_t few = 4;         // entries whose elements are reused

std::uint32_t batches() { return std::getenv("SLUICE_LONG") != nullptr ? 1500 : 25; }

Address text(int family, const char* four, const char* six) { return address_of(family == 4 ? four : six); }

Tuple tuple(int family, std::uint8_t protocol, std::uint16_t port, const Endpoint& to) {
  return {family, protocol, {text(family, "192.0.2.10", "2001:db8:1::10"), port}, to};
}

/// A service whose address is its backend's: a correct translation changes nothing, so one packet can be run
/// repeatedly.
Endpoint itself(int family) { return {text(family, "10.244.1.5", "fd00:244:1::5"), 8080}; }
Endpoint balancer(int family) { return {text(family, "198.19.0.1", "2001:db8:ffff::1"), 81}; }

void add_itself(World& world, int family) {
  const std::string address = family == 4 ? "10.244.1.5" : "fd00:244:1::5";
  world.change({"policy", "itself", "cluster", "cluster", "reject", "reject"});
  world.change({"backend", "itself", "itself", "same_node", address, "8080"});
  world.change({"cluster", "itself", "itself"});
  world.change({"frontend", "itself", "load_balancer", "tcp", address, "8080"});
}

Run arriving(const World& world, std::uint32_t repeat) {
  return {.hook = Hook::tc_in, .device = world.device("out0"), .repeat = repeat};
}

/// Runs each packet in turn; each must be unchanged.
void carry(World& world, const std::vector<Bytes>& packets) {
  for (std::uint32_t number = 0; number < batches(); ++number) {
    const auto& packet = packets[number % packets.size()];
    const auto verdict = world.programs().shoot(arriving(world, batch), packet);
    REQUIRE(verdict.error == 0);
    INFO(hex(packet) << " became " << hex(verdict.packet));
    REQUIRE(verdict.packet == packet);
  }
}

template <class Key, class Value>
using Entries = std::vector<std::pair<Key, Value>>;

/// Removes an entry, adds another, which gets the same element because the kernel reuses it at once, and
/// removes that, too.
template <class Key, class Value>
void trade_places(maps::HashMap<Key, Value>& map, const Entries<Key, Value>& mine,
                  const Entries<Key, Value>& theirs) {
  for (std::size_t at = 0; at < few; ++at) {
    must(map.erase(mine[at].first));
    must(map.put(theirs[at].first, theirs[at].second, maps::Put::any));
    must(map.erase(theirs[at].first));
    must(map.put(mine[at].first, mine[at].second, maps::Put::any));
  }
}

/// Affinity entries of a few clients for that backend.
Entries<lb_affinity_key, lb_affinity> remembered(const World& world, std::uint8_t first_client,
                                                 const std::string& backend, int family) {
  Entries<lb_affinity_key, lb_affinity> entries;
  for (std::uint8_t at = 0; at < few; ++at) {
    auto client = text(family, "192.0.2.0", "2001:db8:1::");
    client[15] = static_cast<std::uint8_t>(first_client + at);
    lb_affinity_key key{};
    std::copy(client.begin(), client.end(), std::begin(key.client));
    key.service = world.service("itself");
    lb_affinity value{};
    value.backend = world.backend(backend);
    value.used = agent::flow_clock_now(agent::measure_hertz()) - 5;  // correct to within a second
    value.check = lb_affinity_check(&key, value.backend);
    entries.emplace_back(key, value);
  }
  return entries;
}

/// The number of flow entries without their other entry.
template <class Key, class Flow>
std::size_t lone_entries(const maps::HashMap<Key, Flow>& map) {
  std::size_t alone = 0;
  must(map.for_each([&](const Key& key, const Flow& flow) {
    const auto other = map.get(agent::other_key(key, flow));
    alone += other ? 0 : 1;
  }));
  return alone;
}

}  // namespace

// A client without an entry gets the only backend of the set, and so does a client with its own entry. Other
// clients' entries name another backend of the same service, so that only the check distinguishes them.
TEST_CASE("an affinity entry that is reused during a SYN is never taken for another client's") {
  for (const int family : {4, 6}) {
    INFO("IPv" << family);
    World world{Settings{}};
    add_itself(world, family);
    world.change({"backend", "elsewhere", "itself", "same_node", family == 4 ? "10.244.1.6" : "fd00:244:1::6",
                  "8080"});
    world.change({"affinity", "itself", "10800"});
    const auto mine = remembered(world, 10, "itself", family);
    const auto theirs = remembered(world, 100, "elsewhere", family);
    const std::vector<Bytes> packets = {build(tuple(family, 6, 33000, itself(family)), {.flags = syn})};
    auto stranger = tuple(family, 6, 33000, itself(family));
    stranger.source.address[15] = 100;
    must(world.programs().affinity.put(theirs[0].first, theirs[0].second, maps::Put::any));
    const auto sent = world.programs().run(arriving(world, 1), build(stranger, {.flags = syn}));
    REQUIRE(tuple_of(sent.packet).destination.address !=
            itself(family).address);  // another client's entry would lead elsewhere
    auto& affinity = world.programs().affinity;
    meanwhile([&] { carry(world, packets); }, [&](std::uint32_t) { trade_places(affinity, mine, theirs); });
  }
}

TEST_CASE("REL-63 two processors fill one small table: no entry stays without the other") {
  for (const int family : {4, 6}) {
    INFO("IPv" << family);
    Settings settings;
    settings.flows = 16;  // 16 buckets, and room for eight flows
    World world(settings);
    auto& programs = world.programs();
    const auto talk = [&](std::uint16_t first) {
      for (std::uint16_t port = first; port < first + 6; ++port) {
        const auto asked =
            programs.shoot(arriving(world, 1), build(tuple(family, 17, port, balancer(family)), {}));
        programs.shoot({.hook = Hook::tc_out, .device = world.device("out0")},
                       build(tuple_of(asked.packet).reversed(), {}));
      }
    };
    TwoCores cores;
    const auto before = programs.counts();
    for (std::uint32_t round = 0; round < batches() * 20; ++round) {
      cores.run([&] { talk(1000); }, [&] { talk(2000); });
      REQUIRE(world.entries().first <= 16);
      REQUIRE(lone_entries(programs.flows4) + lone_entries(programs.flows6) == 0);
      each_flow_map(programs, [](auto& map) { erase_if(map, [](const auto&) { return true; }); });
    }
    const auto after = programs.counts();
    CHECK(after[LB_OUTCOME_assure_failed] > before[LB_OUTCOME_assure_failed]);
    CHECK(after[LB_OUTCOME_assured] > before[LB_OUTCOME_assured] + std::uint64_t{batches()} * 20);
  }
}

}  // namespace lb::test
