// SPDX-License-Identifier: Apache-2.0
// Redirected flows whose route moves: once a second a packet looks for the route again, so that a flow leaves
// a device that no longer leads to its backend or client, or that exists no more (bpf/path/route.h).
#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "maps/abi/checks.h"
#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/maps.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

constexpr std::uint8_t tcp = 6, udp = 17;

struct Addresses {
  int family;
  const char* client;
  const char* clients;  ///< the beginning of its neighbours' addresses
  const char* service;
  const char* backend;
  const char* client_uplink;  ///< the addresses of out0 and out1, with their prefixes
  const char* backend_uplink;
  const char* other_uplink;
  const char* backend_router;  ///< a neighbour at out1, and one at the other uplink
  const char* other_router;
  int host;  ///< the prefix length of one address
};
constexpr std::array<Addresses, 2> families = {
    {{4, "192.0.2.10", "192.0.2.", "198.19.0.1", "198.51.100.11", "192.0.2.1/24", "198.51.100.1/24",
      "198.18.7.1/24", "198.51.100.12", "198.18.7.2", 32},
     {6, "2001:db8:1::10", "2001:db8:1::", "2001:db8:ffff::1", "2001:db8:2::11", "2001:db8:1::1/64",
      "2001:db8:2::1/64", "2001:db8:7::1/64", "2001:db8:2::12", "2001:db8:7::2", 128}}};

/// An assured flow from a client behind out0 to a backend behind out1, and further uplinks.
class Moving {
 public:
  Moving(const Addresses& addresses, Hook hook, std::uint8_t protocol)
      : addresses_(addresses), hook_(hook), world_(Settings{}) {
    open(protocol, addresses.client);
    REQUIRE(device(LB_FORWARD) == index("out1"));
    REQUIRE(device(LB_REPLY) == index("out0"));
  }

  /// Opens a flow; the one before it is forgotten.
  void open(std::uint8_t protocol, const std::string& client) {
    world_.reset();
    request_ = {
        addresses_.family, protocol, {address_of(client), 33000}, {address_of(addresses_.service), 80}};
    const auto first = run("out0", build(request_, {.flags = syn, .sequence = 1000}));
    onward_ = tuple_of(first.packet);
    static_cast<void>(
        run("out1", build(onward_.reversed(), {.flags = syn | ack, .sequence = 700, .acknowledged = 1001})));
    static_cast<void>(run("out0", request()));
    REQUIRE(world_.entries().first == 2);
  }

  /// Adds an uplink, or adds it again with another index.
  void add_uplink(const std::string& name, const char* address) {
    run_ip(
        fmt::format("link add {0} address {2} type veth peer name {0}p\nlink set {0} up\nlink set {0}p up\n"
                    "address add {1} dev {0}{3}\n",
                    name, address, mac_text(name), addresses_.family == 6 ? " nodad" : ""));
    const auto device = index(name);
    must(world_.programs().devices.put(
        device, {.kind = LB_UPLINK, .pad = {}, .check = lb_device_check(device)}, maps::Put::any));
    must(maps::raw::put(world_.programs().map("lb_devmap"), &device, &device, maps::Put::any));
    world_.programs().set_frame_address(device);
    attach_nothing(device);
  }

  /// Makes a device again: another index, the same name, address and neighbours.
  void remake(const std::string& name, const char* address, const char* neighbour) {
    const auto before = index(name);
    run_ip(fmt::format("link del {}\n", name));
    add_uplink(name, address);
    REQUIRE(index(name) != before);
    know(neighbour, name);
  }

  void know(const char* neighbour, const std::string& device) {
    run_ip(fmt::format("neighbour replace {} lladdr 02:66:00:00:00:01 dev {} nud permanent\n", neighbour,
                       device));
  }
  /// Routes one address by a device.
  void route(const char* verb, const char* address, const std::string& way) {
    run_ip(fmt::format("route {} {}/{} {}\n", verb, address, addresses_.host, way));
  }

  /// Runs the first packet of a later second, in that direction. XDP leaves one in four seconds to tc.
  Verdict next(lb_direction direction, const Bytes& payload = {}) {
    Verdict verdict;
    for (int seconds = 0; seconds < 2; ++seconds) {
      world_.change({"age", "1"});
      verdict = direction == LB_FORWARD ? run("out0", request()) : run("out1", reply(payload));
      if (verdict.counts[LB_OUTCOME_left_to_tc] == 0) {
        break;
      }
    }
    return verdict;
  }
  /// Runs the first reply of a later second in tc, to which XDP may have left it.
  Verdict next_reply_in_tc() {
    world_.change({"age", "1"});
    return world_.programs().run({.hook = Hook::tc_in, .device = index("out1")}, reply({}));
  }
  /// Whether such a packet leaves by that device.
  bool leaves_by(lb_direction direction, const std::string& name) {
    const auto verdict = next(direction);
    INFO(counts_text(verdict.counts));
    const bool sent =
        verdict.counts[hook_ == Hook::xdp ? LB_OUTCOME_flow_xdp : LB_OUTCOME_flow_redirect] == 1;
    CHECK(sent);
    CHECK(device(direction) == index(name));
    if (hook_ != Hook::xdp) {
      return sent && device(direction) == index(name);
    }
    const auto& own = world_.programs().link_address(index(name));
    const bool by_it = std::equal(own.begin(), own.end(), verdict.packet.begin() + 6);
    CHECK(by_it);
    return sent && by_it && device(direction) == index(name);
  }

  /// The device in the flow's entry of that direction.
  std::uint32_t device(lb_direction direction) {
    std::optional<std::uint32_t> found;
    const auto look = [&](const auto& map) {
      must(map.for_each([&](const auto&, const auto& flow) {
        if (flow.track.direction == direction) {
          found = flow.track.device;
        }
      }));
    };
    look(world_.programs().flows4);
    look(world_.programs().flows6);
    return found.value();
  }
  static std::uint32_t index(const std::string& name) { return ::if_nametoindex(name.c_str()); }
  [[nodiscard]] bool by_xdp() const { return hook_ == Hook::xdp; }

 private:
  static std::string mac_text(const std::string& name) {
    return fmt::format("02:55:00:00:00:0{}", name.back());
  }
  [[nodiscard]] Bytes request() const {
    return build(request_, {.flags = ack, .sequence = 1001, .acknowledged = 701});
  }
  [[nodiscard]] Bytes reply(const Bytes& payload) const {
    return build(onward_.reversed(), {.sequence = 701, .payload = payload});
  }
  Verdict run(const char* device, const Bytes& packet) {
    return world_.programs().run({.hook = hook_, .device = index(device)}, packet);
  }

  const Addresses& addresses_;
  Hook hook_;
  World world_;
  Tuple request_;
  Tuple onward_;
};

template <class Test>
void each_flow(Test test) {
  for (const auto& addresses : families) {
    for (const auto hook : {Hook::tc_in, Hook::xdp}) {
      for (const auto protocol : {tcp, udp}) {
        INFO(hook_name(hook) << " IPv" << addresses.family << (protocol == tcp ? " TCP" : " UDP"));
        Moving flow(addresses, hook, protocol);
        test(flow, addresses);
      }
    }
  }
}

}  // namespace

TEST_CASE("REL-66 requests of an open flow follow a route that moves to another uplink") {
  each_flow([](Moving& flow, const Addresses& at) {
    flow.add_uplink("out7", at.other_uplink);
    flow.know(at.backend, "out7");
    flow.route("add", at.backend, "dev out7");
    CHECK(flow.leaves_by(LB_FORWARD, "out7"));
    flow.route("del", at.backend, "dev out7");
    CHECK(flow.leaves_by(LB_FORWARD, "out1"));
  });
}

TEST_CASE(
    "REL-66 replies of an open flow leave the uplink that their client came by when no route is there") {
  each_flow([](Moving& flow, const Addresses& at) {
    flow.add_uplink("out7", at.other_uplink);
    flow.know(at.client, "out7");
    flow.route("add", at.client, "dev out7");
    // The FIB says only of IPv4 whether a route by one device exists besides a better one.
    if (at.family == 4) {
      CHECK(flow.leaves_by(LB_REPLY, "out0"));
    }
    run_ip("address flush dev out0\n");
    CHECK(flow.leaves_by(LB_REPLY, "out7"));
  });
}

TEST_CASE("REL-66 an open flow outlives its devices' being made again") {
  each_flow([](Moving& flow, const Addresses& at) {
    flow.remake("out1", at.backend_uplink, at.backend);
    CHECK(flow.leaves_by(LB_FORWARD, "out1"));
    flow.remake("out0", at.client_uplink, at.client);
    CHECK(flow.leaves_by(LB_REPLY, "out0"));
  });
}

TEST_CASE("REL-66 an open flow whose route is gone is dropped by name, and goes on when it is back") {
  each_flow([](Moving& flow, const Addresses& at) {
    const auto stopped = flow.by_xdp() ? LB_OUTCOME_left_to_tc : LB_OUTCOME_no_route;
    for (const auto& [direction, address, name] :
         {std::tuple{LB_FORWARD, at.backend, "out1"}, {LB_REPLY, at.client, "out0"}}) {
      flow.route("add unreachable", address, "");
      CHECK(flow.next(direction).counts[stopped] == 1);
      CHECK(flow.device(direction) == 0);
      CHECK(flow.next(direction).counts[stopped] == 1);
      flow.route("del unreachable", address, "");
      CHECK(flow.leaves_by(direction, name));
    }
  });
}

// Only the stack sends by a route with headers; by a plain one it drops a reply that arrives with the node's
// own address as its source.
TEST_CASE("REL-99 an open flow's replies leave the stack again when their route adds no headers any more") {
  each_flow([](Moving& flow, const Addresses& at) {
    flow.route("add", at.client, "encap seg6 mode encap segs fd00:99::1 dev out0");
    CHECK(flow.next(LB_REPLY).counts[flow.by_xdp() ? LB_OUTCOME_left_to_tc : LB_OUTCOME_flow_stack] == 1);
    CHECK(flow.device(LB_REPLY) == LB_STACK_DEVICE);
    CHECK(flow.next_reply_in_tc().counts[LB_OUTCOME_flow_stack] == 1);
    flow.route("del", at.client, "");
    CHECK(flow.next_reply_in_tc().counts[LB_OUTCOME_flow_redirect] == 1);
    CHECK(flow.leaves_by(LB_REPLY, "out0"));
  });
}

TEST_CASE(
    "REL-66 replies too big for the uplink to which the route has moved leave by it in the same second") {
  each_flow([](Moving& flow, const Addresses& at) {
    flow.add_uplink("out7", at.other_uplink);
    run_ip("link set out7 mtu 1400\n");
    flow.know(at.client, "out7");
    flow.route("add", at.client, "dev out7");
    run_ip("address flush dev out0\n");
    const auto verdict = flow.next(LB_REPLY, Bytes(1420, 'x'));
    CHECK(verdict.counts[flow.by_xdp() ? LB_OUTCOME_left_to_tc : LB_OUTCOME_too_big] == 1);
    CHECK(flow.device(LB_REPLY) == Moving::index("out7"));
  });
}

// The kernel routes a request by its client's address, and translates it afterwards.
TEST_CASE("REL-66 an open flow follows rules about its client") {
  each_flow([](Moving& flow, const Addresses& at) {
    flow.add_uplink("out7", at.other_uplink);
    flow.know(at.backend, "out7");
    run_ip(fmt::format("rule add from {} lookup 100\nroute add {}/{} dev out7 table 100\n", at.client,
                       at.backend, at.host),
           at.family);
    const auto verdict = flow.next(LB_FORWARD);
    CHECK(flow.device(LB_FORWARD) == Moving::index("out7"));
    // No route by out7 is for the node's own address, with which XDP asks for the neighbour.
    CHECK(verdict.counts[flow.by_xdp() ? LB_OUTCOME_left_to_tc : LB_OUTCOME_flow_redirect] == 1);
  });
}

TEST_CASE("REL-66 XDP sends each flow by that of two equal routes which its client's address chose") {
  for (const auto& at : families) {
    INFO("IPv" << at.family);
    Moving flow(at, Hook::xdp, tcp);
    flow.add_uplink("out7", at.other_uplink);
    flow.know(at.other_router, "out7");
    flow.route(
        "add", at.backend,
        fmt::format("nexthop via {} dev out1 nexthop via {} dev out7", at.backend_router, at.other_router));
    std::set<std::uint32_t> devices;
    for (int client = 20; client < 40; ++client) {
      flow.open(tcp, fmt::format("{}{}", at.clients, client));
      const auto device = flow.device(LB_FORWARD);
      CHECK(flow.leaves_by(LB_FORWARD, device == Moving::index("out7") ? "out7" : "out1"));
      CHECK(flow.device(LB_FORWARD) == device);
      devices.insert(device);
    }
    CHECK(devices.size() == 2);
  }
}

}  // namespace lb::test
