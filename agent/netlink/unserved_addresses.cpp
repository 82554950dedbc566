// SPDX-License-Identifier: Apache-2.0
#include "agent/netlink/unserved_addresses.hpp"

#include <fmt/format.h>
#include <net/if_arp.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace lb::agent {
namespace {

/// Kinds of devices by which no client outside comes, or whose packets a virtual switch processes.
constexpr std::array<std::string_view, 7> inner_kinds = {"veth", "netkit", "tun",        "dummy",
                                                         "ifb",  "nlmon",  "openvswitch"};

bool is_inner(const NetDevice& device) {
  return std::ranges::find(inner_kinds, std::string_view(device.kind)) != inner_kinds.end();
}

/// Whether frames from outside come by the device: a bridge has them from a port that leads outside.
bool leads_outside(std::uint32_t index, const LinkFacts& link, const NodeLinks& links) {
  if (link.device.kind != "bridge") {
    return !is_inner(link.device);
  }
  return std::ranges::any_of(links, [index](const auto& other) {
    return other.second.device.master == index && !is_inner(other.second.device);
  });
}

}  // namespace

std::vector<UnservedAddress> unserved_addresses(const NodeLinks& links,
                                                const std::vector<std::string>& uplinks,
                                                const std::set<std::uint32_t>& pods,
                                                const std::vector<NodeAddress>& addresses) {
  std::vector<UnservedAddress> unserved;
  for (const auto& [index, link] : links) {
    const auto& device = link.device;
    if (device.power != DevicePower::up || device.hardware != ARPHRD_ETHER || device.master != 0 ||
        pods.contains(index) || std::ranges::find(uplinks, device.name) != uplinks.end() ||
        !leads_outside(index, link, links)) {
      continue;
    }
    const auto serving = std::ranges::find_if(addresses, [&](const NodeAddress& each) {
      return each.kind == LB_NODE_PORT_ADDRESS &&
             std::ranges::find(link.addresses, each.address) != link.addresses.end();
    });
    if (serving != addresses.end()) {
      unserved.push_back({device.name, serving->address});
    }
  }
  std::ranges::sort(unserved, {}, &UnservedAddress::device);
  return unserved;
}

std::string unserved_addresses_text(const std::vector<UnservedAddress>& unserved) {
  if (unserved.empty()) {
    return {};
  }
  const auto& first = unserved.front();
  const auto more =
      unserved.size() == 1 ? std::string() : fmt::format(" and {} more devices", unserved.size() - 1);
  return fmt::format("no node ports on {} ({}){}: --devices auto,{} would serve it", first.device,
                     first.address.text(), more, first.device);
}

}  // namespace lb::agent
