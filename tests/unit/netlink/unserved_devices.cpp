// SPDX-License-Identifier: Apache-2.0
// Devices that lead to backends but have none of our programs, and when the log reports them (REL-99).
#include "agent/netlink/unserved_devices.hpp"

#include <net/if_arp.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

namespace lb::agent {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

enum Index : std::uint32_t {
  lo = 1,
  eth0,
  eth1,
  wg0,
  vxlan0,
  bridge0,
  pod1,
  pod2,
  tap0,
  caliabc,
  vrf0,
  flat0
};

void add(NodeLinks& links, Index index, const char* name, const char* kind, std::uint32_t master = 0) {
  auto& device = links[index].device;
  device.name = name;
  device.kind = kind;
  device.master = master;
}

/// A node with one device of each kind.
NodeLinks node() {
  NodeLinks links;
  add(links, lo, "lo", "");
  links[lo].device.hardware = ARPHRD_LOOPBACK;
  add(links, eth0, "eth0", "");
  add(links, eth1, "eth1", "");
  add(links, wg0, "wg0", "wireguard");
  links[wg0].device.hardware = ARPHRD_NONE;
  add(links, vxlan0, "vxlan0", "vxlan");
  add(links, bridge0, "bridge0", "bridge");
  add(links, pod1, "pod1", "veth", bridge0);
  links[pod1].device.peer_netns = 1;
  add(links, pod2, "pod2", "veth");
  links[pod2].device.peer_netns = 2;
  add(links, tap0, "tap0", "tun");
  add(links, caliabc, "caliabc", "veth");
  add(links, flat0, "flat0", "bridge");
  return links;
}

std::string at(const UnservedDevices& devices, Index index, HopKind kind = HopKind::gateway) {
  return devices.at({index, kind}).value_or(UnservedDevice{}).label;
}

TEST_CASE("REL-99: by which devices routes to backends elsewhere are a problem") {
  const UnservedDevices devices(node(), {"eth0", "gone0"}, {caliabc});
  CHECK(at(devices, eth0).empty());
  CHECK(at(devices, eth0, HopKind::on_link).empty());
  CHECK(at(devices, eth1) == "eth1");
  CHECK(at(devices, eth1, HopKind::on_link) == "eth1");
  CHECK(at(devices, wg0, HopKind::on_link) == "wg0");
  CHECK(at(devices, vxlan0) == "vxlan0");
  CHECK(at(devices, flat0, HopKind::on_link) == "flat0");
  // No route, this node's own address, loopback, and an unknown device.
  CHECK_FALSE(devices.at({}));
  CHECK(at(devices, lo, HopKind::on_link).empty());
  CHECK_FALSE(devices.at({99, HopKind::gateway}));
}

TEST_CASE(
    "REL-99: pods and virtual machines of this node answer by the stack, what is behind them does not") {
  const UnservedDevices devices(node(), {"eth0"}, {caliabc});
  for (const auto guest : {bridge0, pod1, pod2, tap0}) {
    CHECK(at(devices, guest, HopKind::on_link).empty());
    CHECK_FALSE(at(devices, guest, HopKind::gateway).empty());
  }
  CHECK(at(devices, caliabc, HopKind::gateway).empty());
}

TEST_CASE("REL-99: tunnels and devices without Ethernet, named as uplinks") {
  const UnservedDevices devices(node(), {"eth0", "vxlan0", "wg0"}, {});
  CHECK(at(devices, vxlan0).empty());
  CHECK(at(devices, wg0) == "wg0");
}

TEST_CASE("REL-99: routes that encapsulate, by whatever device") {
  const UnservedDevices devices(node(), {"eth0"}, {});
  CHECK(at(devices, eth0, HopKind::encapsulated) == "eth0 (encap)");
  CHECK(at(devices, eth1, HopKind::encapsulated) == "eth1");
  CHECK(at(UnservedDevices(node(), {}, {}), eth0, HopKind::encapsulated).empty());
  UnservedReport report;
  const auto said = report.messages({{"eth0 (encap)", {1, "default/web (10.244.2.10)", true}}}, {});
  REQUIRE(said.size() == 1);
  CHECK_THAT(said.front().text,
             StartsWith("device eth0 (encap) is not served, and routes lead to 1 backend") &&
                 ContainsSubstring("; let a tunnel device add the headers"));
}

TEST_CASE("REL-99: nothing is said where no device serves, or where routes are those of a VRF") {
  CHECK(at(UnservedDevices(node(), {}, {}), eth1).empty());
  CHECK(at(UnservedDevices(node(), {"gone0", "wg0"}, {}), eth1).empty());
  auto links = node();
  add(links, vrf0, "vrf0", "vrf");
  links[eth0].device.master = vrf0;
  CHECK(at(UnservedDevices(links, {"eth0"}, {}), eth1).empty());
}

TEST_CASE("REL-99: what status says, in the room that it has") {
  CHECK(unserved_text({}).empty());
  CHECK(unserved_text({{"eth1", {1, ""}}}) == "unserved devices: eth1 (1 backend)");
  CHECK(unserved_text({{"a", {1, ""}}, {"b", {2, ""}}, {"c", {3, ""}}, {"d", {4, ""}}, {"e", {5, ""}}}) ==
        "unserved devices: a (1 backend), b (2 backends), c (3 backends), 2 more");
}

TEST_CASE("REL-99: the log says when it begins and ends, and of one device no more than once a minute") {
  using namespace std::chrono_literals;
  const UnservedByDevice found = {{"eth1", {3, "default/web (10.244.2.10)"}}};
  const UnservedReport::TimePoint start{1h};
  UnservedReport report;
  const auto said = [&](const UnservedByDevice& now, std::chrono::seconds after) {
    std::string text;
    for (const auto& each : report.messages(now, start + after)) {
      text += each.text + "\n";
    }
    return text;
  };
  CHECK(said({}, 0s).empty());
  CHECK_THAT(said(found, 1s),
             StartsWith("device eth1 is not served, and routes lead to 3 backends by it, such as "
                        "default/web (10.244.2.10): "));
  CHECK(said(found, 2s).empty());
  CHECK(said({{"eth1", {4, "default/web (10.244.2.10)"}}}, 120s).empty());
  CHECK_THAT(said({}, 121s), StartsWith("device eth1 is served, or "));
  CHECK(said({}, 122s).empty());
  CHECK_THAT(said(found, 123s), ContainsSubstring("is not served"));
  for (int second = 124; second < 180; second += 2) {
    said({}, std::chrono::seconds(second));
    CHECK(said(found, std::chrono::seconds(second + 1)).empty());
  }
  CHECK_THAT(said(found, 183s), ContainsSubstring("is not served"));
  CHECK_THAT(said({{"eth2", {1, "x (::1)"}}}, 184s),
             ContainsSubstring("eth1 is served") && ContainsSubstring("routes lead to 1 backend by it"));
}

}  // namespace
}  // namespace lb::agent
