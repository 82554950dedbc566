// SPDX-License-Identifier: Apache-2.0
// rtnetlink's reports of routes as bytes: which of them count, and when they are requested again.
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "agent/netlink/node_network.hpp"
#include "tests/unit/netlink/rtnetlink_messages.hpp"

namespace lb::agent {

using namespace rtnetlink_test;

namespace {

struct RouteSpec {
  const char* destination = nullptr;  ///< null: default
  std::uint32_t device = 0;
  bool gateway = false;
  unsigned char table = RT_TABLE_MAIN;
  unsigned char family = AF_INET;
  unsigned char type = RTN_UNICAST;
  unsigned char protocol = RTPROT_BOOT;
};

Bytes route(std::uint16_t type, const RouteSpec& spec, std::uint16_t flags = 0) {
  const bool ipv4 = spec.family == AF_INET;
  rtmsg head{};
  head.rtm_family = spec.family;
  head.rtm_table = spec.table;
  head.rtm_type = spec.type;
  head.rtm_protocol = spec.protocol;
  head.rtm_dst_len = spec.destination == nullptr ? 0 : ipv4 ? 32 : 128;
  Bytes body;
  append(body, head);
  if (spec.destination != nullptr) {
    const auto address = *k8s::Address::parse(spec.destination);
    attribute(body, RTA_DST, address.bytes.data() + (ipv4 ? 12 : 0), ipv4 ? 4 : 16);
  }
  if (spec.gateway) {
    attribute(body, RTA_GATEWAY, "\x0a\x00\x00\x01", 4);
  }
  attribute(body, RTA_OIF, &spec.device, sizeof(spec.device));
  return message(type, body, 0, flags);
}

Bytes default_by_two(std::uint32_t one, std::uint32_t other) {
  rtmsg head{};
  head.rtm_family = AF_INET;
  head.rtm_table = RT_TABLE_MAIN;
  head.rtm_type = RTN_UNICAST;
  Bytes body;
  append(body, head);
  Bytes hops;
  for (const auto device : {one, other}) {
    append(hops, rtnexthop{sizeof(rtnexthop), 0, 0, static_cast<int>(device)});
  }
  attribute(body, RTA_MULTIPATH, hops.data(), hops.size());
  return message(RTM_NEWROUTE, body);
}

Bytes eth1(DevicePower power) { return device(RTM_NEWLINK, 3, "eth1", 1500, AF_UNSPEC, power); }

/// Tracks routes; device 1 is lo, 2 is eth0, 3 is eth1, and eth0 has 10.0.0.10.
RtnetlinkDump node_with_routes(const std::vector<Bytes>& routes) {
  RtnetlinkDump talk(Routes::followed);
  talk.begin();
  int index = 0;
  for (const auto* name : {"lo", "eth0", "eth1"}) {
    REQUIRE(talk.receive(device(RTM_NEWLINK, ++index, name)) == Next::wait);
  }
  REQUIRE(finish(talk) == Next::send);
  REQUIRE(talk.receive(address(RTM_NEWADDR, {2, "10.0.0.10"})) == Next::wait);
  REQUIRE(finish(talk) == Next::send);
  REQUIRE(asked_type(talk) == RTM_GETROUTE);
  REQUIRE_FALSE(talk.network().whole());
  for (const auto& each : routes) {
    REQUIRE(talk.receive(each) == Next::wait);
  }
  REQUIRE(finish(talk) == Next::notify);
  REQUIRE(talk.network().whole());
  return talk;
}

/// "eth0: 4 10.244.1.5": the families of default routes and the addresses that a device leads to.
std::vector<std::string> routes_of(const RtnetlinkDump& talk) {
  std::vector<std::string> list;
  for (const auto& [index, link] : talk.network().links()) {
    std::string text = link.device.name + ":";
    text += link.default_route4 ? " 4" : "";
    text += link.default_route6 ? " 6" : "";
    for (const auto& host : link.hosts) {
      text += " " + host.text();
    }
    if (text.back() != ':') {
      list.push_back(text);
    }
  }
  return list;
}

}  // namespace

TEST_CASE("rtnetlink: default routes of the main table and routes to hosts, and no others") {
  const auto talk = node_with_routes({
      route(RTM_NEWROUTE, {nullptr, 2, true}),
      route(RTM_NEWROUTE, {nullptr, 3, false, RT_TABLE_MAIN, AF_INET6}),
      route(RTM_NEWROUTE, {nullptr, 3, true, 42}),
      route(RTM_NEWROUTE, {nullptr, 1, false, RT_TABLE_MAIN, AF_INET6, RTN_UNREACHABLE}),
      route(RTM_NEWROUTE, {"10.244.1.5", 3}),
      route(RTM_NEWROUTE, {"fd00::5", 3, false, 42, AF_INET6}),
      route(RTM_NEWROUTE, {"10.244.2.5", 2, true}),
      route(RTM_NEWROUTE, {"10.0.0.10", 2, false, RT_TABLE_LOCAL}),
  });
  CHECK(routes_of(talk) == Texts{"eth0: 4", "eth1: 6 10.244.1.5 fd00::5"});
}

TEST_CASE("SEM-142: addresses that the node has by a local route alone serve node ports") {
  const auto local = [](const char* destination, unsigned char table, unsigned char protocol,
                        unsigned char family = AF_INET) {
    return RouteSpec{destination, 2, false, table, family, RTN_LOCAL, protocol};
  };
  auto talk = node_with_routes({
      route(RTM_NEWROUTE, local("203.0.113.5", RT_TABLE_LOCAL, 66)),
      route(RTM_NEWROUTE, local("2001:db8::5", RT_TABLE_LOCAL, RTPROT_STATIC, AF_INET6)),
      route(RTM_NEWROUTE, local("10.0.0.99", RT_TABLE_LOCAL, RTPROT_KERNEL)),
      route(RTM_NEWROUTE, local("203.0.113.6", 42, RTPROT_BOOT)),
  });
  const auto serving = [&talk](const NodePortAddresses& asked = {}) {
    return texts(talk.network().addresses(asked, {}), LB_NODE_PORT_ADDRESS);
  };
  CHECK(serving() == Texts{"10.0.0.10", "203.0.113.5", "2001:db8::5"});
  CHECK(routes_of(talk).empty());
  NodePortAddresses listed;
  listed.scope = NodePortScope::ranges;
  listed.ranges = {*k8s::Prefix::parse("10.0.0.0/24"), *k8s::Prefix::parse("fd00::/64")};
  CHECK(serving(listed) == Texts{"10.0.0.10"});
  CHECK(talk.receive(route(RTM_DELROUTE, local("203.0.113.5", RT_TABLE_LOCAL, 66))) == Next::notify);
  CHECK(serving() == Texts{"10.0.0.10", "2001:db8::5"});
  CHECK(talk.receive(device(RTM_NEWLINK, 2, "eth0", 1500, AF_UNSPEC, DevicePower::down)) == Next::notify);
  CHECK(serving() == Texts{"10.0.0.10"});
}

TEST_CASE("rtnetlink: a default route of several next hops, and one that replaces it") {
  auto talk = node_with_routes({default_by_two(2, 3)});
  CHECK(routes_of(talk) == Texts{"eth0: 4", "eth1: 4"});
  CHECK(talk.receive(route(RTM_NEWROUTE, {nullptr, 3, true}, NLM_F_REPLACE)) == Next::notify);
  CHECK(routes_of(talk) == Texts{"eth1: 4"});
  CHECK(talk.receive(route(RTM_NEWROUTE, {nullptr, 3, true})) == Next::wait);
  CHECK(talk.receive(route(RTM_DELROUTE, {nullptr, 3, true})) == Next::notify);
  CHECK(routes_of(talk).empty());
}

TEST_CASE("rtnetlink: what the kernel drops without a word") {
  auto talk =
      node_with_routes({route(RTM_NEWROUTE, {nullptr, 2, true}), route(RTM_NEWROUTE, {nullptr, 3, true})});
  // Routes that prefer an address as source are removed with it; the known routes stay valid until the new
  // dump is complete.
  CHECK(talk.receive(address(RTM_DELADDR, {2, "10.0.0.10"})) == Next::notify_and_send);
  CHECK(asked_type(talk) == RTM_GETROUTE);
  CHECK(routes_of(talk) == Texts{"eth0: 4", "eth1: 4"});
  CHECK(talk.receive(route(RTM_NEWROUTE, {nullptr, 3, true})) == Next::wait);
  CHECK(finish(talk) == Next::notify);
  CHECK(routes_of(talk) == Texts{"eth1: 4"});
  CHECK(talk.receive(device(RTM_DELLINK, 3, "eth1")) == Next::notify);
  CHECK(talk.receive(device(RTM_NEWLINK, 3, "eth1")) == Next::notify);
  CHECK(routes_of(talk).empty());
}

// The kernel marks the next hop as dead, and as alive again, without a notification.
TEST_CASE("rtnetlink: one of several next hops is back when its device is up again") {
  auto talk = node_with_routes({default_by_two(2, 3)});
  CHECK(talk.receive(eth1(DevicePower::down)) == Next::notify);
  CHECK(routes_of(talk) == Texts{"eth0: 4"});
  CHECK(talk.receive(eth1(DevicePower::up)) == Next::notify_and_send);
  CHECK(asked_type(talk) == RTM_GETROUTE);
  CHECK(talk.receive(default_by_two(2, 3)) == Next::wait);
  CHECK(finish(talk) == Next::notify);
  CHECK(routes_of(talk) == Texts{"eth0: 4", "eth1: 4"});
}

TEST_CASE("rtnetlink: a device that flaps during a dump of routes causes another one") {
  auto talk = node_with_routes({default_by_two(2, 3)});
  REQUIRE(talk.receive(address(RTM_DELADDR, {2, "10.0.0.10"})) == Next::notify_and_send);
  CHECK(talk.receive(default_by_two(2, 3)) == Next::wait);
  CHECK(talk.receive(eth1(DevicePower::down)) == Next::wait);
  CHECK(talk.receive(eth1(DevicePower::up)) == Next::wait);
  CHECK(finish(talk) == Next::notify_and_send);
  CHECK(asked_type(talk) == RTM_GETROUTE);
  CHECK(talk.receive(default_by_two(2, 3)) == Next::wait);
  CHECK(finish(talk) == Next::notify);
  CHECK(routes_of(talk) == Texts{"eth0: 4", "eth1: 4"});
}

// On a busy node each dump may meet another address that goes.
TEST_CASE(
    "REL-19, REL-43: what is new is reported at the end of a dump of routes, even if that is outdated") {
  auto talk = node_with_routes({route(RTM_NEWROUTE, {nullptr, 2, true})});
  constexpr unsigned dumps = 5;
  const auto pod = [](unsigned number) { return "10.0.1." + std::to_string(number); };
  for (unsigned number = 0; number <= dumps; ++number) {
    CHECK(talk.receive(address(RTM_NEWADDR, {2, pod(number).c_str()})) == Next::notify);
  }
  CHECK(talk.receive(address(RTM_DELADDR, {2, pod(0).c_str()})) == Next::notify_and_send);
  for (unsigned number = 1; number <= dumps; ++number) {
    const auto index = static_cast<int>(10 + number);
    CHECK(talk.receive(device(RTM_NEWLINK, index, "veth" + std::to_string(number))) == Next::wait);
    CHECK(talk.receive(address(RTM_DELADDR, {2, pod(number).c_str()})) == Next::wait);
    CHECK(talk.receive(route(RTM_NEWROUTE, {nullptr, 3, true})) == Next::wait);
    CHECK(finish(talk) == Next::notify_and_send);
    CHECK(asked_type(talk) == RTM_GETROUTE);
    CHECK(talk.network().whole());
    CHECK(talk.network().devices().contains(static_cast<std::uint32_t>(index)));
    CHECK(routes_of(talk) == Texts{"eth1: 4"});
  }
  CHECK(talk.receive(route(RTM_NEWROUTE, {nullptr, 2, true})) == Next::wait);
  CHECK(finish(talk) == Next::notify);
  CHECK(routes_of(talk) == Texts{"eth0: 4"});
}

TEST_CASE("rtnetlink: an address that goes during the first dump of routes does not delay the start") {
  RtnetlinkDump talk(Routes::followed);
  talk.begin();
  CHECK(talk.receive(device(RTM_NEWLINK, 2, "eth0")) == Next::wait);
  CHECK(finish(talk) == Next::send);
  CHECK(talk.receive(address(RTM_NEWADDR, {2, "10.0.0.10"})) == Next::wait);
  CHECK(finish(talk) == Next::send);
  CHECK(talk.receive(address(RTM_DELADDR, {2, "10.0.0.10"})) == Next::wait);
  CHECK_FALSE(talk.network().whole());
  CHECK(finish(talk) == Next::notify_and_send);
  CHECK(talk.network().whole());
  CHECK(finish(talk) == Next::notify);
}

// Each new pod's device comes up once.
TEST_CASE("rtnetlink: a device that had no routes causes no dump of routes when it comes up") {
  auto talk = node_with_routes({route(RTM_NEWROUTE, {nullptr, 2, true})});
  CHECK(talk.receive(eth1(DevicePower::down)) == Next::notify);
  CHECK(talk.receive(eth1(DevicePower::up)) == Next::notify);
}

TEST_CASE("rtnetlink: who does not ask for routes hears of none") {
  auto talk = node_with({});
  CHECK(talk.network().whole());
  CHECK(talk.receive(route(RTM_NEWROUTE, {nullptr, 2, true})) == Next::wait);
  CHECK(routes_of(talk).empty());
}

}  // namespace lb::agent
