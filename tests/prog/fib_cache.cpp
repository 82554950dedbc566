// SPDX-License-Identifier: Apache-2.0
// XDP caches a FIB result for an eighth of a second: changes of neighbours and routes still take effect
// (bpf/path/fib_cache.h).
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

constexpr auto timeouts = std::chrono::seconds(20);  // tc gets one packet of a flow in four seconds

struct Names {
  int family;
  const char* client;
  const char* service;
  const char* backend;
  const char* router;
};
constexpr std::array<Names, 2> families = {
    {{4, "192.0.2.10", "198.19.0.1", "198.51.100.11", "198.51.100.12"},
     {6, "2001:db8:1::10", "2001:db8:ffff::1", "2001:db8:2::11", "2001:db8:2::12"}}};

constexpr std::uint8_t tcp = 6, udp = 17;

Tuple request_of(const Names& names, std::uint8_t protocol = tcp) {
  return {names.family, protocol, {address_of(names.client), 33000}, {address_of(names.service), 80}};
}

/// An established flow.
class Flow {
 public:
  Flow(World& world, const Tuple& request) : world_(world), request_(request) { establish(); }

  /// Runs the flow's packet at XDP until the result satisfies `wanted`; returns false if none does in time.
  template <class Wanted>
  bool until(Wanted wanted) {
    const auto end = std::chrono::steady_clock::now() + timeouts;
    while (std::chrono::steady_clock::now() < end) {
      if (wanted(run_xdp())) {
        return true;
      }
    }
    return false;
  }

  /// Runs its packet at XDP.
  Verdict run_xdp() {
    return run(Hook::xdp, "out0", build(request_, {.flags = ack, .sequence = 1001, .acknowledged = 701}));
  }

 private:
  Verdict run(Hook hook, const std::string& device, const Bytes& packet) {
    return world_.programs().run({.hook = hook, .device = world_.device(device)}, packet);
  }

  void establish() {
    const auto first = run(Hook::tc_in, "out0", build(request_, {.flags = syn, .sequence = 1000}));
    REQUIRE(first.counts[LB_OUTCOME_new_remote] == 1);
    const auto answer = tuple_of(first.packet).reversed();
    const auto second =
        run(Hook::tc_in, "out1", build(answer, {.flags = syn | ack, .sequence = 700, .acknowledged = 1001}));
    const auto third =
        run(Hook::tc_in, "out0", build(request_, {.flags = ack, .sequence = 1001, .acknowledged = 701}));
    const auto& proof = request_.protocol == udp ? second : third;
    REQUIRE(proof.counts[LB_OUTCOME_assured] == 1);
  }

  World& world_;
  Tuple request_;
};

Mac next_of(const Verdict& verdict) {
  Mac mac{};
  std::copy_n(verdict.packet.begin(), mac.size(), mac.begin());
  return mac;
}

bool sent(const Verdict& verdict) { return verdict.counts[LB_OUTCOME_flow_xdp] == 1; }

}  // namespace

TEST_CASE("REL-65 XDP follows a neighbour whose link address changes, and a route that goes") {
  for (const auto& names : families) {
    INFO("IPv" << names.family);
    World world{Settings()};
    Flow flow(world, request_of(names));
    std::optional<Mac> before;
    REQUIRE(flow.until([&](const Verdict& verdict) {
      if (sent(verdict)) {
        before = next_of(verdict);
      }
      return sent(verdict);
    }));
    run_ip(
        fmt::format("neighbour replace {} lladdr 02:77:77:77:77:77 dev out1 nud permanent\n", names.backend));
    const Mac after = {0x02, 0x77, 0x77, 0x77, 0x77, 0x77};
    CHECK(flow.until([&](const Verdict& verdict) {
      CHECK((!sent(verdict) || next_of(verdict) == *before || next_of(verdict) == after));
      return sent(verdict) && next_of(verdict) == after;
    }));
    run_ip(fmt::format("route add unreachable {}/{}\n", names.backend, names.family == 4 ? 32 : 128));
    // XDP leaves a flow to tc for one second of four; after the route is gone it does so for longer.
    auto last_sent = std::chrono::steady_clock::now();
    CHECK(flow.until([&last_sent](const Verdict& verdict) {
      const auto now = std::chrono::steady_clock::now();
      if (sent(verdict)) {
        last_sent = now;
      }
      return now - last_sent > std::chrono::seconds(2);
    }));
    run_ip(fmt::format("route del unreachable {}/{}\n", names.backend, names.family == 4 ? 32 : 128));
    CHECK(flow.until(sent));
  }
}

TEST_CASE("REL-65 XDP keeps apart the routes of protocols that routing rules tell apart") {
  for (const auto& names : families) {
    INFO("IPv" << names.family);
    World world{Settings()};
    run_ip(fmt::format("rule add ipproto udp lookup 100\nroute add {}/{} via {} dev out1 table 100\n",
                       names.backend, names.family == 4 ? 32 : 128, names.router),
           names.family);
    Flow first(world, request_of(names, tcp));
    Flow second(world, request_of(names, udp));
    const auto direct = neighbour_mac(address_of(names.backend));
    const auto routed = neighbour_mac(address_of(names.router));
    std::array<int, 2> packets{};
    // XDP leaves a flow to tc for one second of four.
    CHECK(second.until([&](const Verdict& datagram) {
      const auto segment = first.run_xdp();
      if (sent(segment)) {
        CHECK(next_of(segment) == direct);
      }
      if (sent(datagram)) {
        CHECK(next_of(datagram) == routed);
      }
      packets[0] += sent(segment) ? 1 : 0;
      packets[1] += sent(datagram) ? 1 : 0;
      return packets[0] > 100 && packets[1] > 100;
    }));
  }
}

}  // namespace lb::test
