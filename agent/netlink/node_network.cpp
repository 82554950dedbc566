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
#include <cstring>
#include <optional>

#include "agent/netlink/filters.hpp"
#include "agent/netlink/netlink.hpp"

namespace lb::agent {
namespace {

using netlink::after;
using netlink::Bytes;
using netlink::for_each_attribute;
using netlink::read;

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
    } else if (type == IFLA_ADDRESS && content.size() == device.mac.size()) {
      std::memcpy(device.mac.data(), content.data(), content.size());
    }
  });
  return device;
}

std::optional<k8s::Address> read_address(std::uint8_t family, Bytes bytes) {
  k8s::Address address;
  if (family == AF_INET && bytes.size() == 4) {
    address.bytes[10] = address.bytes[11] = 0xff;
    std::memcpy(address.bytes.data() + 12, bytes.data(), 4);
    return address;
  }
  if (family == AF_INET6 && bytes.size() == 16) {
    std::memcpy(address.bytes.data(), bytes.data(), 16);
    return address;
  }
  return std::nullopt;
}

struct AddressMessage {
  std::optional<k8s::Address> address;
  std::uint32_t flags = 0;
};

// On a point-to-point device IFA_ADDRESS is the other end's and IFA_LOCAL ours.
AddressMessage read_address_message(const ifaddrmsg& head, Bytes attributes) {
  AddressMessage message{std::nullopt, head.ifa_flags};
  for_each_attribute(attributes, [&](unsigned short type, Bytes content) {
    if (type == IFA_LOCAL || (type == IFA_ADDRESS && !message.address)) {
      message.address = read_address(head.ifa_family, content);
    } else if (type == IFA_FLAGS) {
      message.flags = read<std::uint32_t>(content).value_or(message.flags);
    }
  });
  return message;
}

/// Is the address in use? Not while it may be somebody else's.
bool in_use(std::uint32_t flags) {
  const bool tentative = (flags & IFA_F_TENTATIVE) != 0 && (flags & IFA_F_OPTIMISTIC) == 0;
  return !tentative && (flags & IFA_F_DADFAILED) == 0;
}

// For IPv6 the bit of IFA_F_SECONDARY means a temporary address.
AddressUse use_of(const ifaddrmsg& head, std::uint32_t flags) {
  const bool plain = (flags & (IFA_F_SECONDARY | IFA_F_DEPRECATED)) == 0;
  return head.ifa_scope == RT_SCOPE_UNIVERSE && plain ? AddressUse::preferred : AddressUse::other;
}

/// A filter that replaces another is told as one that came. So are our own: one look too many.
bool at_our_handle(Bytes body) {
  const auto filter = read<tcmsg>(body);
  return filter && filter->tcm_handle >= first_handle && filter->tcm_handle <= last_handle;
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

// A list limits only the families it names.
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

// kube-proxy's IPVS mode puts every service's address on this device; none of them is the node's.
constexpr std::string_view ipvs_device = "kube-ipvs0";

}  // namespace

std::vector<NodeAddress> NodeNetwork::addresses(const NodePortAddresses& asked,
                                                const std::vector<k8s::Address>& primary) const {
  std::map<k8s::Address, lb_address_kind> unique;
  for (const auto& [place, use] : addresses_) {
    const auto device = devices_.find(place.device);
    if (device == devices_.end() || device->second.name != ipvs_device) {
      unique.emplace(place.address, kind_of(place.address, asked, primary));
    }
  }
  std::vector<NodeAddress> list;
  list.reserve(unique.size());
  for (const auto& [address, kind] : unique) {
    list.push_back({address, kind});
  }
  return list;
}

Sources NodeNetwork::sources(const std::vector<std::string>& uplink) const {
  Sources sources;
  for (const auto& name : uplink) {
    for (const auto& [place, use] : addresses_) {
      const auto device = devices_.find(place.device);
      if (use != AddressUse::preferred || device == devices_.end() || device->second.name != name ||
          device->second.hardware != ARPHRD_ETHER) {
        continue;
      }
      auto& source = place.address.family() == k8s::Family::ipv4 ? sources.ipv4 : sources.ipv6;
      if (source == k8s::Address()) {
        source = place.address;
      }
    }
  }
  return sources;
}

void RtnetlinkDump::begin() {
  const auto changes = network_.filter_changes_ + 1;  // one may be among what was lost
  network_ = {};
  network_.filter_changes_ = changes;
  phase_ = Phase::devices;
  ++sequence_;
}

std::vector<std::byte> RtnetlinkDump::request() const {
  struct {
    nlmsghdr head;
    rtgenmsg family;
  } message{};
  message.head.nlmsg_len = NLMSG_LENGTH(sizeof(rtgenmsg));
  message.head.nlmsg_type = phase_ == Phase::devices ? RTM_GETLINK : RTM_GETADDR;
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
        next = phase_ == Phase::following ? Next::tell : next;
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

// The end of the first list asks for the second one; the end of that makes the network whole.
RtnetlinkDump::Next RtnetlinkDump::finish_list() {
  if (phase_ == Phase::devices) {
    phase_ = Phase::addresses;
    ++sequence_;
    return Next::send;
  }
  phase_ = Phase::following;
  return Next::tell;
}

// The end of a list that was given up says nothing about the present one.
RtnetlinkDump::Effect RtnetlinkDump::take(const nlmsghdr& head, std::span<const std::byte> body) {
  const bool answer = head.nlmsg_seq == sequence_ && phase_ != Phase::following;
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

// Bridges tell of their ports under their own family; that says nothing about the device.
RtnetlinkDump::Effect RtnetlinkDump::take_device(std::uint16_t type, std::span<const std::byte> body) {
  const auto head = read<ifinfomsg>(body);
  if (!head || head->ifi_family != AF_UNSPEC) {
    return Effect::none;
  }
  const auto index = static_cast<std::uint32_t>(head->ifi_index);
  if (type == RTM_NEWLINK) {
    const bool changed = put(network_.devices_, index, read_device(*head, after(body, sizeof(*head))));
    return changed ? Effect::changed : Effect::none;
  }
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
  const DeviceAddress place{head->ifa_index, *message.address};
  if (type == RTM_NEWADDR && in_use(message.flags)) {
    return put(network_.addresses_, place, use_of(*head, message.flags)) ? Effect::changed : Effect::none;
  }
  return network_.addresses_.erase(place) > 0 ? Effect::changed : Effect::none;
}

}  // namespace lb::agent
