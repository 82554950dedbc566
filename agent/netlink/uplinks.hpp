// SPDX-License-Identifier: Apache-2.0
// Finds the uplinks if no option names them, and the host ends of pods' devices, from the kernel's reports.
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/netlink/node_network.hpp"
#include "agent/options/config.hpp"
#include "k8s/objects/model.hpp"

namespace lb::agent {

/// Devices by interface index, as NodeNetwork::links() returns them.
using NodeLinks = std::map<std::uint32_t, LinkFacts>;

/// A device towards the network, and the reason: "named", "default route", "Node's address", "vxlan tunnel";
/// several reasons are separated by ", ".
struct Uplink {
  std::string name;
  std::string why;
  bool operator==(const Uplink&) const = default;
};

/// The devices that the options name, in that order, whether they exist or not; then, if discovery is on,
/// devices with an address of the Node, devices of default routes, and tunnels. `node_addresses` are the own
/// Node's InternalIPs and ExternalIPs.
[[nodiscard]] std::vector<Uplink> find_uplinks(const NodeLinks& links, const AgentOptions& options,
                                               const std::vector<k8s::Address>& node_addresses);

[[nodiscard]] std::vector<std::string> names_of(const std::vector<Uplink>& uplinks);

/// "eth0 (default route, Node's address), flannel.1 (vxlan tunnel)"; empty: none.
[[nodiscard]] std::string uplinks_text(const std::vector<Uplink>& uplinks);

/// A pod's device, and the reason: "route to 10.244.1.7", "port of cni0", "named as Cilium names them".
struct PodLink {
  std::uint32_t index = 0;
  std::string name;
  std::string why;
  bool operator==(const PodLink&) const = default;
};

/// Devices whose peer is in another network namespace and which a route, a bridge or a CNI's naming scheme
/// identifies as a pod's, by interface index. Never an uplink, an excluded device, or a port of a virtual
/// switch that serves services itself.
[[nodiscard]] std::vector<PodLink> find_pods(const NodeLinks& links, const std::vector<Uplink>& uplinks,
                                             const AgentOptions& options);

}  // namespace lb::agent
