// SPDX-License-Identifier: Apache-2.0
// Builds rtnetlink messages as the kernel sends them, and feeds dumps to a RtnetlinkDump, for tests.
#pragma once

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "agent/netlink/node_network.hpp"

namespace lb::agent::rtnetlink_test {

using Bytes = std::vector<std::byte>;
using Next = RtnetlinkDump::Next;

template <class T>
inline void append(Bytes& bytes, const T& value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof(value));
}

inline void pad(Bytes& bytes) { bytes.resize((bytes.size() + 3) / 4 * 4); }

inline void attribute(Bytes& bytes, unsigned short type, const void* content, std::size_t size) {
  append(bytes, rtattr{static_cast<unsigned short>(sizeof(rtattr) + size), type});
  const auto* from = static_cast<const std::byte*>(content);
  bytes.insert(bytes.end(), from, from + size);
  pad(bytes);
}

inline Bytes message(std::uint16_t type, const Bytes& body, std::uint32_t sequence = 0,
                     std::uint16_t flags = 0) {
  Bytes bytes;
  nlmsghdr head{};
  head.nlmsg_len = static_cast<std::uint32_t>(sizeof(head) + body.size());
  head.nlmsg_type = type;
  head.nlmsg_flags = flags;
  head.nlmsg_seq = sequence;
  append(bytes, head);
  bytes.insert(bytes.end(), body.begin(), body.end());
  pad(bytes);
  return bytes;
}

inline Bytes device(std::uint16_t type, int index, const std::string& name, std::uint32_t mtu = 1500,
                    unsigned char family = AF_UNSPEC, DevicePower power = DevicePower::up) {
  Bytes body;
  ifinfomsg head{};
  head.ifi_family = family;
  head.ifi_type = ARPHRD_ETHER;
  head.ifi_index = index;
  head.ifi_flags = power == DevicePower::up ? IFF_UP : 0;
  append(body, head);
  attribute(body, IFLA_IFNAME, name.c_str(), name.size() + 1);
  attribute(body, IFLA_MTU, &mtu, sizeof(mtu));
  attribute(body, IFLA_ADDRESS, "\x02\x00\x00\x00\x00\x01", 6);
  return message(type, body);
}

struct AddressSpec {
  std::uint32_t device = 0;
  const char* text = nullptr;
  std::uint32_t flags = 0;
  unsigned char scope = RT_SCOPE_UNIVERSE;
  const char* other_end = nullptr;
  unsigned char length = 0;  ///< of the prefix
  const char* broadcast = nullptr;
};

inline Bytes address(std::uint16_t type, const AddressSpec& spec) {
  const auto parsed = *k8s::Address::parse(spec.text);
  const bool ipv4 = parsed.family() == k8s::Family::ipv4;
  const std::size_t skip = ipv4 ? 12 : 0;
  ifaddrmsg head{};
  head.ifa_family = ipv4 ? AF_INET : AF_INET6;
  head.ifa_prefixlen = spec.length;
  head.ifa_scope = spec.scope;
  head.ifa_index = spec.device;
  Bytes body;
  append(body, head);
  const auto other = spec.other_end != nullptr ? *k8s::Address::parse(spec.other_end) : parsed;
  attribute(body, IFA_ADDRESS, other.bytes.data() + skip, 16 - skip);
  if (spec.other_end != nullptr) {
    attribute(body, IFA_LOCAL, parsed.bytes.data() + skip, 16 - skip);
  }
  if (spec.broadcast != nullptr) {
    const auto broadcast = *k8s::Address::parse(spec.broadcast);
    attribute(body, IFA_BROADCAST, broadcast.bytes.data() + skip, 16 - skip);
  }
  attribute(body, IFA_FLAGS, &spec.flags, sizeof(spec.flags));
  return message(type, body);
}

inline std::uint32_t asked_sequence(const RtnetlinkDump& talk) {
  nlmsghdr head{};
  std::memcpy(&head, talk.request().data(), sizeof(head));
  return head.nlmsg_seq;
}

inline std::uint16_t asked_type(const RtnetlinkDump& talk) {
  nlmsghdr head{};
  std::memcpy(&head, talk.request().data(), sizeof(head));
  return head.nlmsg_type;
}

inline Next finish(RtnetlinkDump& talk) {
  return talk.receive(message(NLMSG_DONE, Bytes(4), asked_sequence(talk)));
}

/// A node with these addresses; device 1 is lo, 2 is eth0, 3 is kube-ipvs0, 4 is eth1, 5 is kube-dummy-if.
inline RtnetlinkDump node_with(const std::vector<AddressSpec>& addresses) {
  RtnetlinkDump talk;
  talk.begin();
  int index = 0;
  for (const auto* name : {"lo", "eth0", "kube-ipvs0", "eth1", "kube-dummy-if"}) {
    REQUIRE(talk.receive(device(RTM_NEWLINK, ++index, name)) == Next::wait);
  }
  REQUIRE(finish(talk) == Next::send);
  for (const auto& spec : addresses) {
    REQUIRE(talk.receive(address(RTM_NEWADDR, spec)) == Next::wait);
  }
  REQUIRE(finish(talk) == Next::notify);
  return talk;
}

inline std::vector<std::string> texts(const std::vector<NodeAddress>& addresses, lb_address_kind kind) {
  std::vector<std::string> list;
  for (const auto& entry : addresses) {
    if (entry.kind == kind) {
      list.push_back(entry.address.text());
    }
  }
  return list;
}

inline std::vector<k8s::Address> parsed(const std::vector<const char*>& list) {
  std::vector<k8s::Address> addresses;
  addresses.reserve(list.size());
  for (const auto* text : list) {
    addresses.push_back(*k8s::Address::parse(text));
  }
  return addresses;
}

using Texts = std::vector<std::string>;

}  // namespace lb::agent::rtnetlink_test
