// What kube-proxy's IPVS mode keeps outside of iptables: virtual services, a device for their addresses and
// IP sets; which of these are its, and which connections go through them. Pure.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "agent/netlink/ip_sets.hpp"
#include "agent/netlink/ipvs.hpp"
#include "agent/netlink/tracked.hpp"

namespace lb::agent {

/// As any version since 1.13 names them, also IPv6's, which `kube-proxy --cleanup` leaves behind.
[[nodiscard]] bool is_kube_proxy_set(std::string_view name);

struct IpvsState {
  std::vector<k8s::Address> bound;  ///< of ipvs_device, sorted
  std::vector<VirtualService> services;
  std::vector<IpSet> sets;
};

struct IpvsRemoval {
  std::vector<VirtualService> services;
  std::vector<std::string> sets;
};

/// kube-proxy's are the virtual services whose address it has bound to its device, and node ports, which its
/// sets list. (`kube-proxy --cleanup` removes all that there are.)
[[nodiscard]] IpvsRemoval plan_ipvs_removal(const IpvsState& state);

/// "virtual service tcp 10.96.0.1:443".
[[nodiscard]] std::string virtual_service_text(const VirtualService& service);

/// A connection that IPVS translates.
struct IpvsConnection {
  TrackedTuple requests;
  std::string state;  ///< the kernel's word: "ESTABLISHED", "UDP"
};

/// The kernel's ip_vs_conn. Lines that are none are passed over.
[[nodiscard]] std::vector<IpvsConnection> read_ipvs_connections(std::istream& text);

/// Those that have begun and not ended, of the services that go. Of TCP, UDP and SCTP.
[[nodiscard]] std::vector<IpvsConnection> carried_by(const IpvsRemoval& removal,
                                                     std::vector<IpvsConnection> connections);

/// Why conntrack cannot translate it in IPVS's place; empty: it can. A source on the device is an address
/// that the node loses with it.
[[nodiscard]] std::string why_not_handed(const IpvsConnection& connection,
                                         const std::vector<k8s::Address>& bound, ConntrackTable& conntrack);

/// Makes conntrack translate it: what is tracked of it so far only accompanies IPVS.
[[nodiscard]] boost::system::error_code hand_over_ipvs(const IpvsConnection& connection,
                                                       ConntrackTable& conntrack);

}  // namespace lb::agent
