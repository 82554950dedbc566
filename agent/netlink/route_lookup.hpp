// SPDX-License-Identifier: Apache-2.0
// The device by which packets to an address leave, as `ip route get ADDRESS` reports it: asks the kernel, so
// that rules, metrics and next hops are respected.
#pragma once

#include <cstdint>

#include "agent/netlink/netlink.hpp"
#include "k8s/objects/model.hpp"
#include "maps/map.hpp"

namespace lb::agent {

enum class HopKind : std::uint8_t {
  on_link,
  gateway,
  encapsulated  ///< the route adds headers of its own: `ip route … encap`
};

struct NextHop {
  std::uint32_t device = 0;  ///< interface index; 0: no route, or the address is this node's own
  HopKind kind = HopKind::on_link;
  bool operator==(const NextHop&) const = default;
};

[[nodiscard]] netlink::Request route_question(const k8s::Address& address);
/// A packet that is forwarded: its source, and the device by which it arrives.
struct Arrival {
  k8s::Address source;
  std::uint32_t device = 0;  ///< interface index
};
/// The same for a packet that is forwarded, so that rules by source and by device are respected.
[[nodiscard]] netlink::Request route_question(const k8s::Address& address, const Arrival& arrival);
/// Whether the kernel's reply says that packets to the address end on this node; pure.
[[nodiscard]] bool is_local_route(const nlmsghdr& head, netlink::Bytes body);
/// Parses the kernel's reply; pure. A malformed reply counts as no route.
[[nodiscard]] NextHop next_hop_of(const nlmsghdr& head, netlink::Bytes body);

class RouteLookup {
 public:
  /// If no socket can be opened, next_hop() finds no route.
  RouteLookup();

  /// Takes some microseconds.
  [[nodiscard]] NextHop next_hop(const k8s::Address& address) const;
  /// The same for a packet that is forwarded. Also without a route if the kernel would drop the packet.
  [[nodiscard]] NextHop next_hop(const k8s::Address& address, const Arrival& arrival) const;
  /// Whether the address is this node's own, by a device or by a local route alone; also if the kernel does
  /// not say.
  [[nodiscard]] bool is_local(const k8s::Address& address) const;
  /// Whether routes or rules have changed since the last call. The notifications are drained, not parsed, and
  /// wake no handler.
  [[nodiscard]] bool changed() const;

 private:
  [[nodiscard]] NextHop answer(const netlink::Request& question) const;

  maps::Fd socket_;
  maps::Fd changes_;
};

}  // namespace lb::agent
