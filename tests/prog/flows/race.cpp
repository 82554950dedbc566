// SPDX-License-Identifier: Apache-2.0
// No value read from a flow table is used without its check: one processor carries packets of flows, while
// the other adds and removes flows of another service in the same tables. SLUICE_LONG=1 runs 60 million
// packets.
#include <bpf/bpf.h>
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <cstring>
#include <vector>

#include "tests/lib/amount.hpp"
#include "tests/prog/lib/two_cores.hpp"
#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/maps.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

constexpr std::uint32_t batch = 20000;  // packets per system call
constexpr std::uint16_t readers = 64;   // flows that are carried
constexpr std::uint16_t few = 4;        // those whose entries are removed and added

std::uint64_t packets_wanted() { return amount<std::uint64_t>(3'000'000, 60'000'000); }

Address text(int family, const char* four, const char* six) { return address_of(family == 4 ? four : six); }

/// A service whose address is its backend's: its flows change nothing, so one packet can be run repeatedly.
Tuple to_itself(int family, std::uint16_t port) {
  return {family,
          6,
          {text(family, "192.0.2.10", "2001:db8:1::10"), port},
          {text(family, "10.244.1.5", "fd00:244:1::5"), 8080}};
}

Tuple to_other(int family, std::uint16_t port) {
  return {family,
          6,
          {text(family, "192.0.2.11", "2001:db8:1::11"), port},
          {text(family, "198.19.0.1", "2001:db8:ffff::1"), 80}};
}

void add_itself(World& world, int family) {
  const auto name = fmt::format("itself{}", family);
  const std::string address = family == 4 ? "10.244.1.5" : "fd00:244:1::5";
  world.change({"policy", name, "cluster", "cluster", "reject", "reject"});
  world.change({"backend", name, name, "same_node", address, "8080"});
  world.change({"cluster", name, name});
  world.change({"frontend", name, "load_balancer", "tcp", address, "8080"});
}

class Race {
 public:
  explicit Race(int family) : family_(family), world_(settings()) {
    add_itself(world_, family);
    for (std::uint16_t port = 1; port <= readers; ++port) {
      open(to_itself(family_, port), Hook::tc_out, "out0");
    }
  }

  World& world() { return world_; }
  /// Why carry() returned false.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// Performs a handshake, so that the flow is in lb_flows.
  void open(const Tuple& request, Hook back, const char* way) {
    auto& programs = world_.programs();
    const auto first = programs.run(in(), build(request, {.flags = syn}));
    const auto answer = tuple_of(first.packet).reversed();
    programs.run({.hook = back, .device = world_.device(way)},
                 build(answer, {.flags = syn | ack, .sequence = 700, .acknowledged = 1}));
    programs.run(in(), build(request, {.flags = ack, .sequence = 1, .acknowledged = 701}));
  }

  /// Carries a reader's packets; returns false if one of them was changed.
  bool carry(int number) {
    auto packet = build(to_itself(family_, static_cast<std::uint16_t>(1 + number)),
                        {.flags = ack, .payload = Bytes(10, 7)});
    set_macs(packet, {2, 0xff, 0, 0, 0, 1}, world_.programs().link_address(world_.device("out0")));
    Bytes out(packet.size() + 256);
    __sk_buff skb{};
    skb.ifindex = world_.device("out0");
    bpf_test_run_opts options{};
    options.sz = sizeof(options);
    options.data_in = packet.data();
    options.data_size_in = static_cast<std::uint32_t>(packet.size());
    options.data_out = out.data();
    options.data_size_out = static_cast<std::uint32_t>(out.size());
    options.ctx_in = &skb;
    options.ctx_size_in = sizeof(skb);
    options.repeat = static_cast<int>(batch);
    if (bpf_prog_test_run_opts(world_.programs().program(Hook::tc_in), &options) != 0) {
      problem_ = fmt::format("the kernel did not run it: {}", std::strerror(errno));
      return false;
    }
    out.resize(options.data_size_out);
    if (out != packet) {
      problem_ = fmt::format("{} became {}", hex(packet), hex(out));
    }
    return out == packet;
  }

  /// Opens a few flows of the other service, and removes them as expiry does.
  void churn(std::uint16_t round) {
    for (std::uint16_t i = 0; i < 16; ++i) {
      open(to_other(family_, static_cast<std::uint16_t>(1 + round * 16 + i)), Hook::tc_in, "out1");
    }
    const auto number = world_.service(fmt::format("remote_tcp{}", family_));
    const auto theirs = [number](const auto& flow) { return flow.track.service == number; };
    each_flow_map(world_.programs(), [&](auto& map) { erase_if(map, theirs); });
  }

  /// Removes a reader's entry, adds another service's, which gets the same element because the kernel reuses
  /// it at once, and then restores the reader's. Runs as fast as the kernel can.
  void churn_readers() {
    if (family_ == 4) {
      trade_places(world_.programs().flows4);
    } else {
      trade_places(world_.programs().flows6);
    }
  }

 private:
  static Settings settings() {
    Settings settings;
    settings.flows = 1024;  // few buckets, so that flows share them
    settings.unassured = 4096;
    return settings;
  }
  [[nodiscard]] Run in() const { return {.hook = Hook::tc_in, .device = world_.device("out0")}; }

  template <class Key, class Flow>
  void trade_places(maps::HashMap<Key, Flow>& map) {
    static thread_local std::vector<std::pair<Key, Flow>> readers_entries;
    static thread_local std::vector<std::pair<Key, Flow>> strangers_entries;
    if (readers_entries.empty()) {
      for (std::uint16_t port = 1; port <= few; ++port) {
        open(to_other(family_, port), Hook::tc_in, "out1");
      }
      readers_entries = requests(map, fmt::format("itself{}", family_));
      strangers_entries = requests(map, fmt::format("remote_tcp{}", family_));
      for (const auto& [key, flow] : strangers_entries) {
        must(map.erase(key));
      }
    }
    for (std::size_t at = 0; at < few; ++at) {
      const auto& [mine, my_flow] = readers_entries.at(at);
      const auto& [theirs, their_flow] = strangers_entries.at(at);
      must(map.erase(mine));
      must(map.put(theirs, their_flow, maps::Put::any));
      must(map.erase(theirs));
      must(map.put(mine, my_flow, maps::Put::any));
    }
  }

  /// The service's forward entries of the first few client ports.
  template <class Key, class Flow>
  std::vector<std::pair<Key, Flow>> requests(const maps::HashMap<Key, Flow>& map,
                                             const std::string& service) {
    std::vector<std::pair<Key, Flow>> entries;
    must(map.for_each([&](const Key& key, const Flow& flow) {
      if (flow.track.service == world_.service(service) && flow.track.direction == LB_FORWARD &&
          key.source_port <= few) {
        entries.emplace_back(key, flow);
      }
    }));
    return entries;
  }

  int family_;
  World world_;
  std::string problem_;
};

/// Runs `disturb` on the other processor while packets are carried; returns their number, and whether all
/// were unchanged.
template <class Disturb>
std::pair<std::uint64_t, bool> carry_all(Race& race, std::uint16_t flows, std::uint64_t wanted,
                                         Disturb disturb) {
  std::uint64_t carried = 0;
  bool whole = true;
  meanwhile(
      [&] {
        for (std::uint16_t number = 0; whole && carried < wanted; ++number) {
          whole = race.carry(number % flows);
          carried += batch;
        }
      },
      disturb);
  return {carried, whole};
}

}  // namespace

TEST_CASE("flows under churn: no packet matches another flow's entry, and none misses its own") {
  for (const int family : {4, 6}) {
    INFO("IPv" << family);
    Race race(family);
    const auto before = race.world().programs().counts();
    const auto [carried, whole] = carry_all(race, readers, packets_wanted() / 2, [&](std::uint32_t round) {
      race.churn(static_cast<std::uint16_t>(round));
    });
    const auto after = race.world().programs().counts();
    INFO(race.problem());
    CHECK(whole);
    CHECK(after[LB_OUTCOME_flow_stack] - before[LB_OUTCOME_flow_stack] == carried);
    CHECK(after[LB_OUTCOME_assured] > before[LB_OUTCOME_assured] + 16);
  }
}

TEST_CASE("flow entries that are deleted while in use are never taken for another flow's") {
  for (const int family : {4, 6}) {
    INFO("IPv" << family);
    Race race(family);
    const auto [carried, whole] =
        carry_all(race, few, packets_wanted() / 2, [&](std::uint32_t) { race.churn_readers(); });
    INFO(race.problem());
    CHECK(whole);
    CHECK(carried >= packets_wanted() / 2);
  }
}

}  // namespace lb::test
