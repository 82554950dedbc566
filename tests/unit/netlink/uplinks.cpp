// SPDX-License-Identifier: Apache-2.0
// Uplinks and pods' devices on nodes as installers, clouds and CNIs configure them.
#include "agent/netlink/uplinks.hpp"

#include <net/if_arp.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/options/config.hpp"

namespace lb::agent {
namespace {

enum class Routes4 : std::uint8_t { none, ipv4, both };

/// A device in a table row.
struct Row {
  std::uint32_t index = 0;
  std::string name;
  std::string kind;  ///< empty: hardware
  std::vector<const char*> addresses = {};
  Routes4 default_routes = Routes4::none;
  std::vector<const char*> hosts = {};
  std::uint32_t master = 0;
  std::optional<std::int32_t> peer_netns = {};
  DevicePower power = DevicePower::up;
};

k8s::Address address(const char* text) { return *k8s::Address::parse(text); }

std::uint16_t hardware_of(const Row& row) {
  if (row.name == "lo") {
    return ARPHRD_LOOPBACK;
  }
  if (row.kind == "wireguard") {
    return ARPHRD_NONE;
  }
  return row.kind == "ipip" ? ARPHRD_TUNNEL : ARPHRD_ETHER;
}

NodeLinks links_of(const std::vector<Row>& rows) {
  NodeLinks links;
  for (const auto& row : rows) {
    auto& link = links[row.index];
    link.device.name = row.name;
    link.device.kind = row.kind;
    link.device.power = row.power;
    link.device.master = row.master;
    link.device.peer_netns = row.peer_netns;
    link.device.hardware = hardware_of(row);
    for (const auto* text : row.addresses) {
      link.addresses.push_back(address(text));
    }
    for (const auto* text : row.hosts) {
      link.hosts.push_back(address(text));
    }
    link.default_route4 = row.default_routes != Routes4::none;
    link.default_route6 = row.default_routes == Routes4::both;
  }
  return links;
}

/// A pod's device in a table row: its peer is in network namespace 3.
Row pod(std::uint32_t index, std::string name, std::vector<const char*> hosts, std::uint32_t master = 0) {
  return {index, std::move(name), "veth", {}, Routes4::none, std::move(hosts), master, 3};
}

struct Layout {
  const char* what;
  std::vector<Row> rows;
  std::vector<const char*> node;  ///< InternalIPs and ExternalIPs
  std::string uplinks;
  std::vector<std::string> pods;  ///< "NAME: WHY"
};

const Row loopback = {1, "lo", "", {"127.0.0.1", "::1"}};

/// Each is a node as the installer, cloud or CNI in its name configures it (docs/cni.md has the sources).
std::vector<Layout> layouts() {
  return {
      {"kubeadm and Calico with VXLAN",
       {loopback,
        {2, "ens3", "", {"10.0.0.10"}, Routes4::ipv4},
        {3, "vxlan.calico", "vxlan", {"10.244.1.0"}},
        {4, "tunl0", "ipip", {}, Routes4::none, {}, 0, {}, DevicePower::down},
        pod(5, "cali1a2b3c4d5e6", {"10.244.1.5"})},
       {"10.0.0.10"},
       "ens3 (Node's address, IPv4 default route), vxlan.calico (vxlan tunnel)",
       {"cali1a2b3c4d5e6: route to 10.244.1.5"}},
      {"kubeadm and Calico with IPIP",
       {loopback,
        {2, "eth0", "", {"10.0.0.10"}, Routes4::ipv4},
        {4, "tunl0", "ipip", {"10.244.1.0"}},
        pod(5, "cali0", {"10.244.1.5"})},
       {"10.0.0.10"},
       "eth0 (Node's address, IPv4 default route), tunl0 (ipip tunnel)",
       {"cali0: route to 10.244.1.5"}},
      {"kubeadm and Cilium, whose programs lead to pods",
       {loopback,
        {2, "eth0", "", {"10.0.0.10", "fd00::10"}, Routes4::both},
        {3, "cilium_net", "veth", {}},
        {4, "cilium_host", "veth", {"10.244.1.1"}},
        {5, "cilium_vxlan", "vxlan", {}},
        pod(6, "lxc_health", {}),
        pod(7, "lxc1a2b3c4d5e6f", {})},
       {"10.0.0.10", "fd00::10"},
       "eth0 (Node's address, default routes), cilium_vxlan (vxlan tunnel)",
       {"lxc_health: named as Cilium names them", "lxc1a2b3c4d5e6f: named as Cilium names them"}},
      {"kubeadm and flannel",
       {loopback,
        {2, "enp1s0", "", {"192.168.1.7"}, Routes4::ipv4},
        {3, "flannel.1", "vxlan", {"10.244.1.0"}},
        {4, "cni0", "bridge", {"10.244.1.1"}},
        pod(5, "veth12345678", {}, 4)},
       {"192.168.1.7"},
       "enp1s0 (Node's address, IPv4 default route), flannel.1 (vxlan tunnel)",
       {"veth12345678: port of cni0"}},
      {"AWS VPC CNI with two ENIs, whose second one the cloud names, too",
       {loopback,
        {2, "eth0", "", {"10.0.1.10"}, Routes4::ipv4},
        {3, "eth1", "", {"10.0.1.99"}},
        {4, "dummy0", "dummy", {"169.254.20.10"}},
        pod(5, "eni1a2b3c4d5e6", {"10.0.1.23"})},
       {"10.0.1.10", "10.0.1.99", "10.0.1.23"},
       "eth0 (Node's address, IPv4 default route), eth1 (Node's address)",
       {"eni1a2b3c4d5e6: route to 10.0.1.23"}},
      {"GKE: the external address is on no device",
       {loopback,
        {2, "eth0", "", {"10.128.0.5"}, Routes4::ipv4},
        {3, "docker0", "bridge", {"169.254.123.1"}, Routes4::none, {}, 0, {}, DevicePower::down},
        pod(4, "gke1a2b3c4d5e6", {"10.4.1.7"})},
       {"10.128.0.5", "34.1.2.3"},
       "eth0 (Node's address, IPv4 default route)",
       {"gke1a2b3c4d5e6: route to 10.4.1.7"}},
      {"kind: the uplink is a veth itself",
       {loopback,
        {2, "eth0", "veth", {"172.18.0.2", "fc00:f853::2"}, Routes4::both, {}, 0, 0},
        pod(3, "veth1a2b3c4d", {"10.244.0.5"})},
       {"172.18.0.2", "fc00:f853::2"},
       "eth0 (Node's address, default routes)",
       {"veth1a2b3c4d: route to 10.244.0.5"}},
      {"kube-router",
       {loopback,
        {2, "eth0", "", {"10.0.0.10"}, Routes4::ipv4},
        {3, "kube-bridge", "bridge", {"10.244.1.1"}},
        {4, "kube-dummy-if", "dummy", {"10.0.0.10"}},
        pod(5, "vethabcdef01", {}, 3)},
       {"10.0.0.10"},
       "eth0 (Node's address, IPv4 default route)",
       {"vethabcdef01: port of kube-bridge"}},
      {"Azure CNI",
       {loopback, {2, "eth0", "", {"10.224.0.4"}, Routes4::ipv4}, pod(3, "azv1a2b3c4d5e6", {"10.224.0.9"})},
       {"10.224.0.4"},
       "eth0 (Node's address, IPv4 default route)",
       {"azv1a2b3c4d5e6: route to 10.224.0.9"}},
      {"OVN-Kubernetes, which serves services itself",
       {loopback,
        {2, "eth0", "", {}, Routes4::none, {}, 4},
        {3, "ovs-system", "openvswitch", {}, Routes4::none, {}, 0, {}, DevicePower::down},
        {4, "br-ex", "openvswitch", {"10.0.0.10"}, Routes4::ipv4},
        {5, "genev_sys_6081", "geneve", {}, Routes4::none, {}, 3},
        pod(6, "1a2b3c4d5e6f789", {}, 3)},
       {"10.0.0.10"},
       "br-ex (Node's address, IPv4 default route)",
       {}},
      {"a VLAN on a bond",
       {loopback,
        {2, "eth0", "", {}, Routes4::none, {}, 4},
        {3, "eth1", "", {}, Routes4::none, {}, 4},
        {4, "bond0", "bond", {}},
        {5, "bond0.100", "vlan", {"10.0.0.10"}, Routes4::ipv4}},
       {"10.0.0.10"},
       "bond0.100 (Node's address, IPv4 default route)",
       {}},
      {"a management device without a default route, and another machine's address on lo",
       {{1, "lo", "", {"127.0.0.1", "192.0.2.1"}},
        {2, "mgmt0", "", {"172.16.0.10"}},
        {3, "eth0", "", {"10.0.0.10"}, Routes4::ipv4}},
       {"192.0.2.1"},
       "eth0 (IPv4 default route)",
       {}},
      {"WireGuard between nodes",
       {loopback, {2, "eth0", "", {"10.0.0.10"}, Routes4::ipv4}, {3, "wg0", "wireguard", {"10.9.0.1"}}},
       {"10.0.0.10"},
       "eth0 (Node's address, IPv4 default route), wg0 (wireguard tunnel)",
       {}},
      {"no network yet", {loopback, {2, "eth0", "", {}}}, {}, "", {}},
  };
}

AgentOptions automatic() {
  AgentOptions options;
  options.uplink_discovery = options.pod_discovery = Discovery::automatic;
  return options;
}

std::vector<k8s::Address> parsed(const std::vector<const char*>& texts) {
  std::vector<k8s::Address> addresses;
  for (const auto* text : texts) {
    addresses.push_back(address(text));
  }
  return addresses;
}

std::vector<std::string> pod_texts(const NodeLinks& links, const std::vector<Uplink>& uplinks,
                                   const AgentOptions& options) {
  std::vector<std::string> texts;
  for (const auto& found : find_pods(links, uplinks, options)) {
    texts.push_back(found.name + ": " + found.why);
  }
  return texts;
}

/// A node with two uplinks, for the tests of options.
NodeLinks two_uplinks() {
  return links_of({loopback,
                   {2, "eth0", "", {"10.0.0.10"}, Routes4::ipv4},
                   {3, "eth1", "", {"10.1.0.10"}, Routes4::ipv4},
                   {4, "wan0", "", {}},
                   pod(5, "veth5", {"10.244.1.5"}),
                   pod(6, "veth6", {})});
}

}  // namespace

TEST_CASE("--devices auto and --pod-devices auto on nodes as they are") {
  for (const auto& layout : layouts()) {
    INFO(layout.what);
    const auto links = links_of(layout.rows);
    const auto uplinks = find_uplinks(links, automatic(), parsed(layout.node));
    CHECK(uplinks_text(uplinks) == layout.uplinks);
    CHECK(pod_texts(links, uplinks, automatic()) == layout.pods);
  }
}

TEST_CASE("names stand beside auto: those come first, and an excluded device never serves") {
  auto options = automatic();
  options.devices = {"wan0", "eth1"};
  options.excluded_devices = {"eth0", "veth5"};
  const auto uplinks = find_uplinks(two_uplinks(), options, {});
  CHECK(uplinks_text(uplinks) == "wan0 (named), eth1 (named)");
  CHECK(names_of(uplinks) == std::vector<std::string>{"wan0", "eth1"});
  CHECK(find_pods(two_uplinks(), uplinks, options).empty());
}

TEST_CASE("without auto nothing is found, and a named device counts though it is not there") {
  AgentOptions options;
  options.devices = {"eth7"};
  CHECK(uplinks_text(find_uplinks(two_uplinks(), options, parsed({"10.0.0.10"}))) == "eth7 (named)");
  CHECK(find_pods(two_uplinks(), {}, options).empty());
}

TEST_CASE("a veth of which nothing says that it is a pod's is none, and neither is one of this namespace") {
  const auto links = links_of({pod(2, "veth2", {}), {3, "veth3", "veth", {}, Routes4::none, {"10.244.1.5"}}});
  CHECK(find_pods(links, {}, automatic()).empty());
}

}  // namespace lb::agent
