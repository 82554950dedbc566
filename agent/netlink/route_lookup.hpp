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
/// Parses the kernel's reply; pure. A malformed reply counts as no route.
[[nodiscard]] NextHop next_hop_of(const nlmsghdr& head, netlink::Bytes body);

class RouteLookup {
 public:
  /// If no socket can be opened, next_hop() finds no route.
  RouteLookup();

  /// Takes some microseconds.
  [[nodiscard]] NextHop next_hop(const k8s::Address& address) const;
  /// Whether routes or rules have changed since the last call. The notifications are drained, not parsed, and
  /// wake no handler.
  [[nodiscard]] bool changed() const;

 private:
  maps::Fd socket_;
  maps::Fd changes_;
};

}  // namespace lb::agent
