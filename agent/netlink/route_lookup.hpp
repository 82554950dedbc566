// Which device packets to an address leave by, as `ip route get ADDRESS` reports: a request to the kernel, so
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
  std::uint32_t device = 0;  ///< interface index; 0: no route leads there, or the address is this node's own
  HopKind kind = HopKind::on_link;
  bool operator==(const NextHop&) const = default;
};

[[nodiscard]] netlink::Request route_question(const k8s::Address& address);
/// Of the kernel's answer; pure. One that is malformed says that there is no route.
[[nodiscard]] NextHop next_hop_of(const nlmsghdr& head, netlink::Bytes body);

class RouteLookup {
 public:
  /// If the process lacks descriptors for sockets, there are no routes.
  RouteLookup();

  /// Costs some microseconds.
  [[nodiscard]] NextHop next_hop(const k8s::Address& address) const;
  /// Have routes or rules changed since the last call? The kernel's reports are drained, not read one by one,
  /// and wake no handler.
  [[nodiscard]] bool changed() const;

 private:
  maps::Fd socket_;
  maps::Fd changes_;
};

}  // namespace lb::agent
