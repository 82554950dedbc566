// Which devices are uplinks where no option names them, and which are the host ends of pods' devices, from
// what the kernel reports of them. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/netlink/node_network.hpp"
#include "agent/options/config.hpp"
#include "k8s/objects/model.hpp"

namespace lb::agent {

/// By interface index, as NodeNetwork::links() has it.
using NodeLinks = std::map<std::uint32_t, LinkFacts>;

/// A device towards the network, and why it is one: "named", "default route", "Node's address", "vxlan
/// tunnel"; several are separated by ", ".
struct Uplink {
  std::string name;
  std::string why;
  bool operator==(const Uplink&) const = default;
};

/// Those that the options name, in their order, whether they are there or not; then, if they are to be found,
/// those with an address of the Node, those of default routes, and tunnels. `node_addresses` are the own
/// Node's InternalIPs and ExternalIPs.
[[nodiscard]] std::vector<Uplink> find_uplinks(const NodeLinks& links, const AgentOptions& options,
                                               const std::vector<k8s::Address>& node_addresses);

[[nodiscard]] std::vector<std::string> names_of(const std::vector<Uplink>& uplinks);

/// "eth0 (default route, Node's address), flannel.1 (vxlan tunnel)"; empty: none.
[[nodiscard]] std::string uplinks_text(const std::vector<Uplink>& uplinks);

/// A pod's device, and what shows it: "route to 10.244.1.7", "port of cni0", "named as Cilium names them".
struct PodLink {
  std::uint32_t index = 0;
  std::string name;
  std::string why;
  bool operator==(const PodLink&) const = default;
};

/// Devices whose other end is in another network namespace and that a route, a bridge or a CNI's way of
/// naming shows to be a pod's; in the order of their indices. Never an uplink or an excluded device, and
/// never what a virtual switch owns that serves services itself.
[[nodiscard]] std::vector<PodLink> find_pods(const NodeLinks& links, const std::vector<Uplink>& uplinks,
                                             const AgentOptions& options);

}  // namespace lb::agent
