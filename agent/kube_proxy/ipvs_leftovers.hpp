// SPDX-License-Identifier: Apache-2.0
// The state of kube-proxy's IPVS mode outside of iptables: virtual services, a device for their addresses and
// IP sets; identifies kube-proxy's, and the connections that use them. Pure.
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

/// Whether kube-proxy makes sets of that name, in any version since 1.13, including IPv6's, which `kube-proxy
/// --cleanup` leaves behind.
[[nodiscard]] bool is_kube_proxy_set(std::string_view name);

struct IpvsState {
  std::vector<k8s::Address> bound;  ///< addresses of ipvs_device, sorted
  std::vector<VirtualService> services;
  std::vector<IpSet> sets;
};

struct IpvsRemoval {
  std::vector<VirtualService> services;
  std::vector<std::string> sets;
};

/// Plans the removal. kube-proxy's virtual services are those whose address it has added to its device, and
/// node ports, which its sets contain. (`kube-proxy --cleanup` removes all virtual services.)
[[nodiscard]] IpvsRemoval plan_ipvs_removal(const IpvsState& state);

/// "virtual service tcp 10.96.0.1:443".
[[nodiscard]] std::string virtual_service_text(const VirtualService& service);

/// A connection that IPVS translates.
struct IpvsConnection {
  TrackedTuple requests;
  std::string state;  ///< the kernel's name: "ESTABLISHED", "UDP"
};

/// "tcp 10.0.0.9:40000 to 10.96.0.80:80".
[[nodiscard]] std::string connection_text(const TrackedTuple& requests);

/// Parses the kernel's ip_vs_conn. Malformed lines are skipped.
[[nodiscard]] std::vector<IpvsConnection> read_ipvs_connections(std::istream& text);

/// Connections of removed services that have begun and not ended; TCP, UDP and SCTP.
[[nodiscard]] std::vector<IpvsConnection> carried_by(const IpvsRemoval& removal,
                                                     std::vector<IpvsConnection> connections);

/// Why conntrack cannot translate the connection instead of IPVS; empty: it can. A source address on the
/// device is lost together with it.
[[nodiscard]] std::string why_not_handed(const IpvsConnection& connection,
                                         const std::vector<k8s::Address>& bound, ConntrackTable& conntrack);

/// Makes conntrack translate the connection: its entry so far only accompanies IPVS.
[[nodiscard]] boost::system::error_code hand_over_ipvs(const IpvsConnection& connection,
                                                       ConntrackTable& conntrack);

}  // namespace lb::agent
