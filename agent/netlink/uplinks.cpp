// SPDX-License-Identifier: Apache-2.0
// Rules that classify devices, each with its reason.
#include "agent/netlink/uplinks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <net/if_arp.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace lb::agent {
namespace {

/// Kinds of encapsulating devices (IFLA_INFO_KIND), which hold whatever the CNI or the operator names the
/// device.
constexpr std::array<std::string_view, 12> tunnel_kinds = {"vxlan",  "geneve",    "gre",  "gretap",
                                                           "erspan", "ip6gre",    "ipip", "ip6tnl",
                                                           "sit",    "wireguard", "vti",  "xfrm"};

/// Kinds of devices that carry addresses but no traffic.
constexpr std::array<std::string_view, 3> carriers = {"dummy", "ifb", "nlmon"};

/// Names of pods' devices, for CNIs that use neither a kernel route nor a bridge for pods (docs/cni.md has
/// the sources).
struct Naming {
  std::string_view prefix;
  std::string_view cni;
};
constexpr std::array<Naming, 6> namings = {{{"cali", "Calico"},
                                            {"lxc", "Cilium"},
                                            {"eni", "the AWS VPC CNI"},
                                            {"vlan", "the AWS VPC CNI"},
                                            {"azv", "the Azure CNI"},
                                            {"gke", "GKE"}}};

/// Kinds of paired devices, one end of which a pod may have.
constexpr std::array<std::string_view, 2> pair_kinds = {"veth", "netkit"};

/// Masters that process their ports' packets themselves and serve services there (OVN-Kubernetes, Antrea).
constexpr std::string_view virtual_switch = "openvswitch";

template <class List, class Item>
bool contains(const List& list, const Item& item) {
  return std::ranges::find(list, item) != std::end(list);
}

bool is_up(const LinkFacts& link) { return link.device.power == DevicePower::up; }

/// A port's packets belong to its bridge or bond, which has the addresses and routes.
bool is_port(const LinkFacts& link) { return link.device.master != 0; }

bool is_tunnel(const LinkFacts& link) { return contains(tunnel_kinds, link.device.kind) && !is_port(link); }

bool carries_packets(const LinkFacts& link) {
  return link.device.hardware != ARPHRD_LOOPBACK && !contains(carriers, std::string_view(link.device.kind));
}

bool has_one_of(const LinkFacts& link, const std::vector<k8s::Address>& addresses) {
  return std::ranges::any_of(link.addresses, [&](const auto& own) { return contains(addresses, own); });
}

enum class Rank : std::uint8_t { node_address, default_route, tunnel, none };

struct Found {
  Rank rank = Rank::none;
  std::string why;
};

Found assess(const LinkFacts& link, const std::vector<k8s::Address>& node_addresses) {
  Found found;
  if (!carries_packets(link) || !is_up(link)) {
    return found;
  }
  std::vector<std::string> reasons;
  const auto add = [&](bool holds, Rank rank, std::string why) {
    if (!holds) {
      return;
    }
    found.rank = std::min(found.rank, rank);
    reasons.push_back(std::move(why));
  };
  add(has_one_of(link, node_addresses), Rank::node_address, "Node's address");
  add(link.default_route4 || link.default_route6, Rank::default_route,
      !link.default_route4   ? "IPv6 default route"
      : !link.default_route6 ? "IPv4 default route"
                             : "default routes");
  add(is_tunnel(link), Rank::tunnel, link.device.kind + " tunnel");
  found.why = fmt::format("{}", fmt::join(reasons, ", "));
  return found;
}

/// Uplinks that no option names, sorted by rank and then by interface index.
std::vector<Uplink> discovered(const NodeLinks& links, const AgentOptions& options,
                               const std::vector<k8s::Address>& node_addresses) {
  std::vector<std::pair<Rank, Uplink>> found;
  for (const auto& [index, link] : links) {
    auto [rank, why] = assess(link, node_addresses);
    if (rank != Rank::none && !contains(options.excluded_devices, link.device.name)) {
      found.emplace_back(rank, Uplink{link.device.name, std::move(why)});
    }
  }
  // Sort by rank, and within a rank by interface index.
  std::vector<Uplink> uplinks;
  for (const auto rank : {Rank::node_address, Rank::default_route, Rank::tunnel}) {
    for (auto& [its_rank, uplink] : found) {
      if (its_rank == rank) {
        uplinks.push_back(std::move(uplink));
      }
    }
  }
  return uplinks;
}

// ---- Pods. ----

/// Whether the device's peer is in another network namespace.
bool leads_elsewhere(const LinkFacts& link) {
  return contains(pair_kinds, std::string_view(link.device.kind)) && link.device.peer_netns.has_value();
}

std::string naming_of(const std::string& name) {
  const auto* const naming =
      std::ranges::find_if(namings, [&](const auto& each) { return name.starts_with(each.prefix); });
  return naming == namings.end() ? std::string() : fmt::format("named as {} names them", naming->cni);
}

/// The reason why the device is a pod's; empty: it is not.
std::string why_pod(const LinkFacts& link, const NodeLinks& links) {
  if (!link.hosts.empty()) {
    return "route to " + link.hosts.front().text();
  }
  const auto master = links.find(link.device.master);
  if (master == links.end()) {
    return naming_of(link.device.name);
  }
  const auto& bridge = master->second.device;
  return bridge.kind == virtual_switch ? std::string() : fmt::format("port of {}", bridge.name);
}

}  // namespace

std::vector<Uplink> find_uplinks(const NodeLinks& links, const AgentOptions& options,
                                 const std::vector<k8s::Address>& node_addresses) {
  std::vector<Uplink> uplinks;
  uplinks.reserve(options.devices.size());
  for (const auto& name : options.devices) {
    uplinks.push_back({name, "named"});
  }
  if (options.uplink_discovery == Discovery::off) {
    return uplinks;
  }
  for (auto& uplink : discovered(links, options, node_addresses)) {
    if (!contains(options.devices, uplink.name)) {
      uplinks.push_back(std::move(uplink));
    }
  }
  return uplinks;
}

std::vector<std::string> names_of(const std::vector<Uplink>& uplinks) {
  std::vector<std::string> names;
  names.reserve(uplinks.size());
  for (const auto& uplink : uplinks) {
    names.push_back(uplink.name);
  }
  return names;
}

std::string uplinks_text(const std::vector<Uplink>& uplinks) {
  std::vector<std::string> texts;
  texts.reserve(uplinks.size());
  for (const auto& uplink : uplinks) {
    texts.push_back(fmt::format("{} ({})", uplink.name, uplink.why));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<PodLink> find_pods(const NodeLinks& links, const std::vector<Uplink>& uplinks,
                               const AgentOptions& options) {
  std::vector<PodLink> pods;
  if (options.pod_discovery == Discovery::off) {
    return pods;
  }
  for (const auto& [index, link] : links) {
    const auto& name = link.device.name;
    if (!leads_elsewhere(link) || link.device.hardware != ARPHRD_ETHER ||
        contains(options.excluded_devices, name) ||
        std::ranges::find(uplinks, name, &Uplink::name) != uplinks.end()) {
      continue;
    }
    if (auto why = why_pod(link, links); !why.empty()) {
      pods.push_back({index, name, std::move(why)});
    }
  }
  return pods;
}

}  // namespace lb::agent
