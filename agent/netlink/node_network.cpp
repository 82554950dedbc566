// SPDX-License-Identifier: Apache-2.0
// Reads rtnetlink messages (rtnetlink(7)) with every length checked: a malformed one is skipped.
#include "agent/netlink/node_network.hpp"

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "agent/netlink/filters.hpp"
#include "agent/netlink/netlink.hpp"
#include "k8s/objects/broadcast.hpp"
#include "k8s/objects/raw_address.hpp"

namespace lb::agent {
namespace {

using netlink::after;
using netlink::Bytes;
using netlink::for_each_attribute;
using netlink::read;

std::string kind_of_link(Bytes info) { return netlink::text_of(netlink::attribute(info, IFLA_INFO_KIND)); }

BondPort bond_port_of_link(Bytes info) {
  if (netlink::text_of(netlink::attribute(info, IFLA_INFO_SLAVE_KIND)) != "bond") {
    return BondPort::none;
  }
  const auto data = netlink::attribute(info, IFLA_INFO_SLAVE_DATA);
  constexpr std::uint8_t active = 0;  // BOND_STATE_ACTIVE
  return read<std::uint8_t>(netlink::attribute(data, IFLA_BOND_SLAVE_STATE)) == active ? BondPort::active
                                                                                       : BondPort::waiting;
}

NetDevice read_device(const ifinfomsg& head, Bytes attributes) {
  NetDevice device;
  device.hardware = head.ifi_type;
  device.power = (head.ifi_flags & IFF_UP) != 0 ? DevicePower::up : DevicePower::down;
  for_each_attribute(attributes, [&](unsigned short type, Bytes content) {
    if (type == IFLA_IFNAME) {
      device.name = netlink::text_of(content);
    } else if (type == IFLA_MTU) {
      device.mtu = read<std::uint32_t>(content).value_or(0);
    } else if (type == IFLA_MASTER) {
      device.master = read<std::uint32_t>(content).value_or(0);
    } else if (type == IFLA_LINK_NETNSID) {
      device.peer_netns = read<std::int32_t>(content);
    } else if (type == IFLA_LINKINFO) {
      device.kind = kind_of_link(content);
      device.bond_port = bond_port_of_link(content);
    } else if (type == IFLA_ADDRESS && content.size() == device.mac.size()) {
      std::memcpy(device.mac.data(), content.data(), content.size());
    }
  });
  return device;
}

std::optional<k8s::Address> read_address(std::uint8_t family, Bytes bytes) {
  const bool fits = (family == AF_INET && bytes.size() == 4) || (family == AF_INET6 && bytes.size() == 16);
  return fits ? k8s::read_address(bytes) : std::nullopt;
}

struct AddressMessage {
  std::optional<k8s::Address> address;
  std::optional<k8s::Address> peer;  ///< IFA_ADDRESS
  std::uint32_t flags = 0;
  k8s::Address broadcast;  ///< all zero: none
};

// On a point-to-point device IFA_ADDRESS is the peer's address and IFA_LOCAL ours.
AddressMessage read_address_message(const ifaddrmsg& head, Bytes attributes) {
  AddressMessage message{std::nullopt, std::nullopt, head.ifa_flags, {}};
  for_each_attribute(attributes, [&](unsigned short type, Bytes content) {
    if (type == IFA_LOCAL) {
      message.address = read_address(head.ifa_family, content);
    } else if (type == IFA_ADDRESS) {
      message.peer = read_address(head.ifa_family, content);
    } else if (type == IFA_BROADCAST) {
      message.broadcast = read_address(head.ifa_family, content).value_or(k8s::Address{});
    } else if (type == IFA_FLAGS) {
      message.flags = read<std::uint32_t>(content).value_or(message.flags);
    }
  });
  if (!message.address) {
    message.address = message.peer;
  }
  return message;
}

/// A device has an IPv6 address once, and the kernel may change its peer.
DeviceAddress key_of(const ifaddrmsg& head, const AddressMessage& message) {
  if (head.ifa_family != AF_INET) {
    return {head.ifa_index, *message.address, 0, {}};
  }
  return {head.ifa_index, *message.address, head.ifa_prefixlen, message.peer.value_or(*message.address)};
}

/// Whether the address is in use; not while duplicate address detection is under way or has failed.
bool in_use(std::uint32_t flags) {
  const bool tentative = (flags & IFA_F_TENTATIVE) != 0 && (flags & IFA_F_OPTIMISTIC) == 0;
  return !tentative && (flags & IFA_F_DADFAILED) == 0;
}

// For IPv6 the bit of IFA_F_SECONDARY means a temporary address.
AddressUse use_of(const ifaddrmsg& head, std::uint32_t flags) {
  const bool plain = (flags & (IFA_F_SECONDARY | IFA_F_DEPRECATED)) == 0;
  return head.ifa_scope == RT_SCOPE_UNIVERSE && plain ? AddressUse::preferred : AddressUse::other;
}

// ---- Routes. ----

struct RouteMessage {
  k8s::Address destination;  ///< all zero in a default route
  std::uint32_t table = 0;
  std::uint32_t metric = 0;
  bool gateway = false;
  std::vector<std::uint32_t> devices;
};

/// Reads one rtnexthop after the other (rtnetlink(7), RTA_MULTIPATH).
void read_next_hops(Bytes hops, RouteMessage& message) {
  while (const auto hop = read<rtnexthop>(hops)) {
    if (hop->rtnh_len < sizeof(rtnexthop) || hop->rtnh_len > hops.size()) {
      return;
    }
    message.devices.push_back(static_cast<std::uint32_t>(hop->rtnh_ifindex));
    message.gateway = true;
    hops = after(hops, hop->rtnh_len);
  }
}

RouteMessage read_route_message(const rtmsg& head, Bytes attributes) {
  RouteMessage message;
  message.table = head.rtm_table;
  for_each_attribute(attributes, [&](unsigned short type, Bytes content) {
    if (type == RTA_DST) {
      message.destination = read_address(head.rtm_family, content).value_or(k8s::Address{});
    } else if (type == RTA_TABLE) {
      message.table = read<std::uint32_t>(content).value_or(message.table);
    } else if (type == RTA_PRIORITY) {
      message.metric = read<std::uint32_t>(content).value_or(0);
    } else if (type == RTA_OIF) {
      message.devices.push_back(read<std::uint32_t>(content).value_or(0));
    } else if (type == RTA_GATEWAY || type == RTA_VIA) {
      message.gateway = true;
    } else if (type == RTA_MULTIPATH) {
      read_next_hops(content, message);
    }
  });
  return message;
}

/// Prefix length of a host address, in bits.
std::uint8_t whole_length(std::uint8_t family) { return family == AF_INET ? 32 : 128; }

bool is_default(const rtmsg& head, const RouteMessage& message) {
  return head.rtm_dst_len == 0 && message.table == RT_TABLE_MAIN;
}

bool leads_to_host(const rtmsg& head, const RouteMessage& message) {
  return head.rtm_dst_len == whole_length(head.rtm_family) && !message.gateway &&
         message.table != RT_TABLE_LOCAL;
}

/// An address that is this node's by a local route alone, as guest agents of clouds add them: the kernel adds
/// those of devices' addresses itself.
bool makes_local(const rtmsg& head, const RouteMessage& message) {
  return head.rtm_type == RTN_LOCAL && head.rtm_protocol != RTPROT_KERNEL &&
         head.rtm_dst_len == whole_length(head.rtm_family) && message.table == RT_TABLE_LOCAL;
}

/// Erases all next hops of a route, whatever their device. Returns their number.
std::size_t drop_hops(std::set<DeviceRoute>& routes, const DeviceRoute& route) {
  return std::erase_if(routes, [&](DeviceRoute known) {
    known.device = route.device;
    return known == route;
  });
}

/// The kernel reports a replaced filter as a new one, and our own filters too: at most one check too many.
bool at_our_handle(Bytes body) {
  const auto filter = read<tcmsg>(body);
  return filter && (all_filter_handles.contains(filter->tcm_handle) ||
                    older_filter_handles.contains(filter->tcm_handle));
}

template <class Map>
bool put(Map& map, const typename Map::key_type& key, typename Map::mapped_type value) {
  const auto [at, inserted] = map.try_emplace(key, value);
  if (!inserted && at->second == value) {
    return false;
  }
  at->second = std::move(value);
  return true;
}

// ---- Which addresses serve node ports. ----

bool same_family(const k8s::Address& one, const k8s::Address& other) {
  return one.family() == other.family();
}

// The address list restricts only the families that it contains.
bool in_primary(const k8s::Address& address, const std::vector<k8s::Address>& primary) {
  if (std::ranges::none_of(primary, [&](const auto& item) { return same_family(item, address); })) {
    return !address.link_local() && !address.loopback();
  }
  return std::ranges::find(primary, address) != primary.end();
}

bool contains(const std::vector<k8s::Prefix>& ranges, const k8s::Address& address) {
  return std::ranges::any_of(ranges, [&](const auto& range) { return range.contains(address); });
}

bool in_ranges(const k8s::Address& address, const std::vector<k8s::Prefix>& ranges) {
  if (std::ranges::none_of(ranges, [&](const auto& range) { return same_family(range.address, address); })) {
    return !address.link_local();
  }
  return contains(ranges, address);
}

bool serves_node_ports(const k8s::Address& address, const NodePortAddresses& asked,
                       const std::vector<k8s::Address>& primary) {
  switch (asked.scope) {
    case NodePortScope::all:
      return !address.link_local();
    case NodePortScope::primary:
      return in_primary(address, primary) || contains(asked.ranges, address);
    case NodePortScope::ranges:
      return in_ranges(address, asked.ranges);
  }
  return false;
}

lb_address_kind kind_of(const k8s::Address& address, const NodePortAddresses& asked,
                        const std::vector<k8s::Address>& primary) {
  if (!serves_node_ports(address, asked, primary)) {
    return LB_NODE_ADDRESS;
  }
  return address.loopback() ? LB_LOOPBACK_ADDRESS : LB_NODE_PORT_ADDRESS;
}

// kube-proxy's IPVS mode and kube-router add every service's address to these devices, and leave them behind
// when they end; none of the addresses is a node address.
constexpr std::array<std::string_view, 2> ipvs_devices = {"kube-ipvs0", "kube-dummy-if"};

bool is_local(const DeviceRoute& route) { return route.table == RT_TABLE_LOCAL; }

}  // namespace

std::vector<NodeAddress> NodeNetwork::addresses(const NodePortAddresses& asked,
                                                const std::vector<k8s::Address>& primary) const {
  std::map<k8s::Address, lb_address_kind> unique;
  for (const auto& [key, facts] : addresses_) {
    const auto device = devices_.find(key.device);
    if (device == devices_.end() ||
        std::ranges::find(ipvs_devices, device->second.name) == ipvs_devices.end()) {
      unique.emplace(key.address, kind_of(key.address, asked, primary));
    }
  }
  for (const auto& route : routes_) {
    if (is_local(route)) {
      unique.emplace(route.destination, kind_of(route.destination, asked, primary));
    }
  }
  std::vector<NodeAddress> list;
  list.reserve(unique.size());
  for (const auto& [address, kind] : unique) {
    list.push_back({address, kind});
  }
  return list;
}

std::vector<k8s::Address> NodeNetwork::broadcasts() const {
  std::vector<k8s::Address> found;
  for (const auto& [key, facts] : addresses_) {
    if (facts.broadcast != k8s::Address{}) {
      found.push_back(facts.broadcast);
    }
    if (key.address.family() != k8s::Family::ipv4) {
      continue;
    }
    const auto length = static_cast<std::uint8_t>(key.length + 96);
    if (const auto last = k8s::broadcast_of({key.peer, length})) {
      found.push_back(*last);
    }
  }
  std::erase_if(found, [](const auto& address) { return address.broadcast(); });
  std::ranges::sort(found);
  const auto rest = std::ranges::unique(found);
  found.erase(rest.begin(), rest.end());
  return found;
}

std::map<std::uint32_t, LinkFacts> NodeNetwork::links() const {
  std::map<std::uint32_t, LinkFacts> links;
  for (const auto& [index, device] : devices_) {
    links[index].device = device;
  }
  for (const auto& [key, facts] : addresses_) {
    const auto link = links.find(key.device);
    if (link == links.end()) {
      continue;
    }
    auto& addresses = link->second.addresses;
    if (addresses.empty() || addresses.back() != key.address) {
      addresses.push_back(key.address);
    }
  }
  for (const auto& route : routes_) {
    const auto link = links.find(route.device);
    if (link == links.end() || is_local(route)) {
      continue;
    }
    if (route.length != 0) {
      link->second.hosts.push_back(route.destination);
    } else {
      (route.family == AF_INET ? link->second.default_route4 : link->second.default_route6) = true;
    }
  }
  return links;
}

Sources NodeNetwork::sources(const std::vector<std::string>& uplink) const {
  Sources sources;
  for (const auto& name : uplink) {
    for (const auto& [key, facts] : addresses_) {
      const auto device = devices_.find(key.device);
      if (facts.use != AddressUse::preferred || device == devices_.end() || device->second.name != name ||
          device->second.hardware != ARPHRD_ETHER) {
        continue;
      }
      auto& source = key.address.family() == k8s::Family::ipv4 ? sources.ipv4 : sources.ipv6;
      if (source == k8s::Address()) {
        source = key.address;
      }
    }
  }
  return sources;
}

void RtnetlinkDump::begin() {
  const auto changes = network_.filter_changes_ + 1;  // a filter change may be among the lost messages
  network_ = {};
  network_.filter_changes_ = changes;
  phase_ = DumpPhase::devices;
  listed_.clear();
  lost_routes_.clear();
  list_again_ = false;
  ++sequence_;
}

std::vector<std::byte> RtnetlinkDump::request() const {
  struct {
    nlmsghdr head;
    rtgenmsg family;
  } message{};
  message.head.nlmsg_len = NLMSG_LENGTH(sizeof(rtgenmsg));
  message.head.nlmsg_type = phase_ == DumpPhase::devices     ? RTM_GETLINK
                            : phase_ == DumpPhase::addresses ? RTM_GETADDR
                                                             : RTM_GETROUTE;
  message.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  message.head.nlmsg_seq = sequence_;
  message.family.rtgen_family = AF_UNSPEC;
  const auto* bytes = reinterpret_cast<const std::byte*>(&message);
  return {bytes, bytes + sizeof(message)};
}

RtnetlinkDump::Next RtnetlinkDump::receive(std::span<const std::byte> datagram) {
  auto next = Next::wait;
  while (const auto head = read<nlmsghdr>(datagram)) {
    if (head->nlmsg_len < sizeof(nlmsghdr) || head->nlmsg_len > datagram.size()) {
      break;
    }
    const auto body = datagram.subspan(sizeof(nlmsghdr), head->nlmsg_len - sizeof(nlmsghdr));
    datagram = after(datagram, head->nlmsg_len);
    switch (take(*head, body)) {
      case Effect::none:
        break;
      case Effect::changed:
        next = phase_ == DumpPhase::following ? Next::notify : next;
        break;
      case Effect::stale:
        list_again_ = phase_ == DumpPhase::routes;
        next = phase_ == DumpPhase::following ? list_routes() : next;
        break;
      case Effect::finished:
        next = finish_list();
        break;
      case Effect::broken:
        begin();
        return Next::send;
    }
  }
  return next;
}

// The end of a dump starts the next one; the end of the last one makes the network whole. Routes that must be
// listed again are taken over nevertheless: that may be so after each of many dumps.
RtnetlinkDump::Next RtnetlinkDump::finish_list() {
  if (phase_ == DumpPhase::devices) {
    phase_ = DumpPhase::addresses;
    ++sequence_;
    return Next::send;
  }
  if (phase_ == DumpPhase::addresses && follows_ == Routes::followed) {
    return list_routes();
  }
  if (phase_ == DumpPhase::routes) {
    network_.routes_ = std::exchange(listed_, {});
  }
  phase_ = DumpPhase::following;
  network_.whole_ = true;
  return std::exchange(list_again_, false) ? list_routes() : Next::notify;
}

/// Known routes stay valid until the dump is complete, and what has changed is reported before.
RtnetlinkDump::Next RtnetlinkDump::list_routes() {
  phase_ = DumpPhase::routes;
  listed_.clear();
  ++sequence_;
  return network_.whole_ ? Next::notify_and_send : Next::send;
}

// The end of an abandoned dump is ignored: its sequence number differs.
RtnetlinkDump::Effect RtnetlinkDump::take(const nlmsghdr& head, std::span<const std::byte> body) {
  const bool answer = head.nlmsg_seq == sequence_ && phase_ != DumpPhase::following;
  if (answer && (head.nlmsg_flags & NLM_F_DUMP_INTR) != 0) {
    return Effect::broken;
  }
  const auto type = head.nlmsg_type;
  switch (type) {
    case NLMSG_DONE:
      return answer ? Effect::finished : Effect::none;
    case NLMSG_ERROR:
      return answer ? Effect::broken : Effect::none;
    case NLMSG_OVERRUN:
      return Effect::broken;
    case RTM_NEWLINK:
    case RTM_DELLINK:
      return take_device(type, body);
    case RTM_NEWADDR:
    case RTM_DELADDR:
      return take_address(type, body);
    case RTM_NEWROUTE:
    case RTM_DELROUTE:
      return take_route(type, head.nlmsg_flags, body);
    case RTM_NEWTFILTER:
      network_.filter_changes_ += at_our_handle(body) ? 1 : 0;
      return Effect::none;
    case RTM_DELTFILTER:
    case RTM_DELQDISC:
      ++network_.filter_changes_;
      return Effect::none;
    default:
      return Effect::none;
  }
}

// Bridges report their ports under their own family (AF_BRIDGE); such messages are ignored.
RtnetlinkDump::Effect RtnetlinkDump::take_device(std::uint16_t type, std::span<const std::byte> body) {
  const auto head = read<ifinfomsg>(body);
  if (!head || head->ifi_family != AF_UNSPEC) {
    return Effect::none;
  }
  const auto index = static_cast<std::uint32_t>(head->ifi_index);
  if (type == RTM_NEWLINK) {
    auto device = read_device(*head, after(body, sizeof(*head)));
    const auto power = device.power;
    const bool changed = put(network_.devices_, index, std::move(device));
    const auto routes = power == DevicePower::down ? drop_routes(index) : revive_routes(index);
    return routes == Effect::none && changed ? Effect::changed : routes;
  }
  static_cast<void>(drop_routes(index));
  lost_routes_.erase(index);
  std::erase_if(network_.addresses_, [&](const auto& entry) { return entry.first.device == index; });
  return network_.devices_.erase(index) > 0 ? Effect::changed : Effect::none;
}

RtnetlinkDump::Effect RtnetlinkDump::take_address(std::uint16_t type, std::span<const std::byte> body) {
  const auto head = read<ifaddrmsg>(body);
  if (!head) {
    return Effect::none;
  }
  const auto message = read_address_message(*head, after(body, sizeof(*head)));
  if (!message.address) {
    return Effect::none;
  }
  const auto key = key_of(*head, message);
  if (type == RTM_NEWADDR && in_use(message.flags)) {
    const AddressFacts facts{use_of(*head, message.flags), message.broadcast};
    return put(network_.addresses_, key, facts) ? Effect::changed : Effect::none;
  }
  if (network_.addresses_.erase(key) == 0) {
    return Effect::none;
  }
  // Routes that prefer a deleted address as their source are deleted too, without a notification.
  return follows_ == Routes::followed ? Effect::stale : Effect::changed;
}

// A device that goes down loses its IPv4 routes, also without a notification.
RtnetlinkDump::Effect RtnetlinkDump::drop_routes(std::uint32_t device) {
  const auto leads_there = [device](const DeviceRoute& route) { return route.device == device; };
  const bool listed = std::erase_if(listed_, leads_there) > 0;
  const bool known = std::erase_if(network_.routes_, leads_there) > 0;
  if (listed || known) {
    lost_routes_.insert(device);
  }
  return known ? Effect::changed : Effect::none;
}

// The kernel revives next hops by a device that is up again, if their route had others, without a
// notification.
RtnetlinkDump::Effect RtnetlinkDump::revive_routes(std::uint32_t device) {
  return lost_routes_.erase(device) > 0 ? Effect::stale : Effect::none;
}

RtnetlinkDump::Effect RtnetlinkDump::take_route(std::uint16_t type, std::uint16_t flags,
                                                std::span<const std::byte> body) {
  const auto head = read<rtmsg>(body);
  if (!head || follows_ == Routes::ignored ||
      (head->rtm_type != RTN_UNICAST && head->rtm_type != RTN_LOCAL) ||
      (head->rtm_flags & RTM_F_CLONED) != 0) {
    return Effect::none;
  }
  const auto message = read_route_message(*head, after(body, sizeof(*head)));
  const bool is_relevant = head->rtm_type == RTN_LOCAL
                               ? makes_local(*head, message)
                               : is_default(*head, message) || leads_to_host(*head, message);
  if (!is_relevant) {
    return Effect::none;
  }
  const DeviceRoute route{head->rtm_family, head->rtm_dst_len,   message.table,
                          message.metric,   message.destination, 0};
  const bool news = type == RTM_NEWROUTE;
  auto& routes = phase_ == DumpPhase::routes ? listed_ : network_.routes_;
  auto changes = news && (flags & NLM_F_REPLACE) != 0 ? drop_hops(routes, route) : 0;
  for (const auto device : message.devices) {
    auto hop = route;
    hop.device = device;
    changes += news ? (routes.insert(hop).second ? 1 : 0) : routes.erase(hop);
  }
  return changes > 0 ? Effect::changed : Effect::none;
}

}  // namespace lb::agent
