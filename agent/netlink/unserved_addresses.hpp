// SPDX-License-Identifier: Apache-2.0
// This node's addresses that serve node ports, but lie on devices of the network that no program of ours is
// on: a second NIC or a VLAN without a default route, the device of a VRRP address. Pure.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "agent/netlink/node_address.hpp"
#include "agent/netlink/uplinks.hpp"

namespace lb::agent {

/// The devices, by name, each with one of the addresses. Not those that lead to pods and virtual machines of
/// this node, and no bridges that have only such ports. `pods`: interface indices of served pods' devices.
struct UnservedAddress {
  std::string device;
  k8s::Address address;
  bool operator==(const UnservedAddress&) const = default;
};
[[nodiscard]] std::vector<UnservedAddress> unserved_addresses(const NodeLinks& links,
                                                              const std::vector<std::string>& uplinks,
                                                              const std::set<std::uint32_t>& pods,
                                                              const std::vector<NodeAddress>& addresses);

/// "no node ports on eth1 (192.168.5.10): --devices auto,eth1 would serve them", for `status`; empty: none.
[[nodiscard]] std::string unserved_addresses_text(const std::vector<UnservedAddress>& unserved);

}  // namespace lb::agent
