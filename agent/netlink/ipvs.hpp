// SPDX-License-Identifier: Apache-2.0
// IPVS by generic netlink: lists and removes the kernel's virtual services.
#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>
#include <compare>
#include <cstdint>
#include <optional>
#include <utility>

#include "agent/netlink/netlink.hpp"
#include "k8s/objects/model.hpp"
#include "maps/abi/abi.h"
#include "maps/map.hpp"

namespace lb::agent {

/// The key of a virtual service; services of a firewall mark have no address and are left out.
struct VirtualService {
  lb_protocol protocol = LB_ANY_PROTOCOL;
  k8s::Address address;
  std::uint16_t port = 0;  ///< host byte order
  auto operator<=>(const VirtualService&) const = default;
};

/// The attributes of the service, or of the server, in a message.
[[nodiscard]] netlink::Bytes ipvs_service_in(netlink::Bytes body);
[[nodiscard]] netlink::Bytes ipvs_server_in(netlink::Bytes body);

/// Reads an address from a field of 16 bytes, of which IPv4 uses the first four; `family` is the attribute
/// with the family.
[[nodiscard]] std::optional<k8s::Address> ipvs_address(netlink::Bytes field, netlink::Bytes family);

/// nullopt for a service of a firewall mark, and for truncated attributes.
[[nodiscard]] std::optional<VirtualService> virtual_service_of(netlink::Bytes attributes);

class Ipvs {
 public:
  /// Fails with ENOENT if the kernel has no IPVS, EPERM without CAP_NET_ADMIN.
  [[nodiscard]] static boost::system::result<Ipvs> open();

  /// Calls `take` with each message.
  [[nodiscard]] boost::system::error_code list_services(const netlink::Take& take) const;
  /// Lists the servers of a service, which is given by a message of the other list.
  [[nodiscard]] boost::system::error_code list_servers(netlink::Bytes service,
                                                       const netlink::Take& take) const;
  [[nodiscard]] boost::system::error_code remove(const VirtualService& service) const;

 private:
  Ipvs(maps::Fd socket, std::uint16_t family) : socket_(std::move(socket)), family_(family) {}

  maps::Fd socket_;
  std::uint16_t family_;  ///< present generic netlink family number of IPVS
};

}  // namespace lb::agent
