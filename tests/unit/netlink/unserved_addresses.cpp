// SPDX-License-Identifier: Apache-2.0
// Addresses that serve node ports on devices that are not served (SEM-142).
#include "agent/netlink/unserved_addresses.hpp"

#include <net/if_arp.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace lb::test {
namespace {

using agent::NodeAddress;
using agent::UnservedAddress;

k8s::Address address(const char* text) { return *k8s::Address::parse(text); }

struct Row {
  std::uint32_t index = 0;
  const char* name = nullptr;
  const char* kind = "";
  std::vector<const char*> addresses = {};
  std::uint32_t master = 0;
  std::uint16_t hardware = ARPHRD_ETHER;
  agent::DevicePower power = agent::DevicePower::up;
};

/// A node whose uplink is eth0, and whose pods' bridge is cni0.
agent::NodeLinks links_of(const std::vector<Row>& rows) {
  std::vector<Row> all = {{1, "lo", "", {"127.0.0.1"}, 0, ARPHRD_LOOPBACK},
                          {2, "eth0", "", {"10.0.0.10"}},
                          {3, "cni0", "bridge", {"10.244.1.1"}},
                          {4, "veth1", "veth", {}, 3}};
  all.insert(all.end(), rows.begin(), rows.end());
  agent::NodeLinks links;
  for (const auto& row : all) {
    auto& link = links[row.index];
    link.device.name = row.name;
    link.device.kind = row.kind;
    link.device.master = row.master;
    link.device.hardware = row.hardware;
    link.device.power = row.power;
    for (const auto* text : row.addresses) {
      link.addresses.push_back(address(text));
    }
  }
  return links;
}

/// "eth1 192.168.5.10" for each.
std::vector<std::string> texts(const std::vector<Row>& rows, lb_address_kind kind = LB_NODE_PORT_ADDRESS) {
  const auto links = links_of(rows);
  std::vector<NodeAddress> addresses;
  for (const auto& [index, link] : links) {
    for (const auto& each : link.addresses) {
      addresses.push_back({each, kind});
    }
  }
  std::vector<std::string> all;
  for (const auto& each : agent::unserved_addresses(links, {"eth0"}, {4}, addresses)) {
    all.push_back(each.device + " " + each.address.text());
  }
  return all;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("SEM-142: devices of the network with addresses that serve node ports") {
  CHECK(texts({}).empty());
  CHECK(texts({{5, "eth1", "", {"192.168.5.10", "192.168.6.10"}},
               {6, "vrrp.51", "macvlan", {"10.0.0.200"}},
               {7, "eth0.7", "vlan", {"fd00:7::10"}},
               {8, "eth2", "", {}}}) ==
        Texts{"eth0.7 fd00:7::10", "eth1 192.168.5.10", "vrrp.51 10.0.0.200"});
  CHECK(texts({{5, "br1", "bridge", {"192.168.5.10"}}, {6, "eth1", "", {}, 5}}) == Texts{"br1 192.168.5.10"});
}

TEST_CASE("SEM-142: none by which no client outside comes, and none whose address serves no node ports") {
  CHECK(texts({{5, "docker0", "bridge", {"172.17.0.1"}},
               {6, "tap0", "tun", {"192.168.122.1"}},
               {7, "nodelocaldns", "dummy", {"169.254.20.10"}},
               {8, "cilium_host", "veth", {"10.244.1.7"}},
               {9, "antrea-gw0", "openvswitch", {"10.244.1.9"}},
               {10, "eth1", "", {"192.168.5.10"}, 0, ARPHRD_ETHER, agent::DevicePower::down},
               {11, "wg0", "wireguard", {"10.9.0.1"}, 0, ARPHRD_NONE}})
            .empty());
  CHECK(texts({{5, "eth1", "", {"192.168.5.10"}}}, LB_NODE_ADDRESS).empty());
}

TEST_CASE("SEM-142: what status says, in the room that it has") {
  CHECK(agent::unserved_addresses_text({}).empty());
  CHECK(agent::unserved_addresses_text({{"eth1", address("192.168.5.10")}}) ==
        "no node ports on eth1 (192.168.5.10): --devices auto,eth1 would serve it");
  CHECK(
      agent::unserved_addresses_text(
          {{"eth1", address("192.168.5.10")}, {"eth2", address("fd00::1")}, {"eth3", address("fd00::2")}}) ==
      "no node ports on eth1 (192.168.5.10) and 2 more devices: --devices auto,eth1 would serve it");
}

}  // namespace lb::test
