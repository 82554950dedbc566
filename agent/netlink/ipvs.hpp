// IPVS by generic netlink: the kernel's virtual services, listed and removed.
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

/// What tells one from another; those of a firewall mark have no address and are not among them.
struct VirtualService {
  lb_protocol protocol = LB_ANY_PROTOCOL;
  k8s::Address address;
  std::uint16_t port = 0;  ///< host byte order
  auto operator<=>(const VirtualService&) const = default;
};

/// The attributes of the service that a message is about, or of the server.
[[nodiscard]] netlink::Bytes ipvs_service_in(netlink::Bytes body);
[[nodiscard]] netlink::Bytes ipvs_server_in(netlink::Bytes body);

/// A field of 16 bytes, of which IPv4 uses the first four; `family` is the attribute that says which.
[[nodiscard]] std::optional<k8s::Address> ipvs_address(netlink::Bytes field, netlink::Bytes family);

/// Nothing for one of a firewall mark, and for what is cut short.
[[nodiscard]] std::optional<VirtualService> virtual_service_of(netlink::Bytes attributes);

class Ipvs {
 public:
  /// Fails with ENOENT where the kernel has no IPVS, EPERM without CAP_NET_ADMIN.
  [[nodiscard]] static boost::system::result<Ipvs> open();

  /// Calls `take` with each message.
  [[nodiscard]] boost::system::error_code list_services(const netlink::Take& take) const;
  /// Those of the service that a message of the other list is about.
  [[nodiscard]] boost::system::error_code list_servers(netlink::Bytes service,
                                                       const netlink::Take& take) const;
  [[nodiscard]] boost::system::error_code remove(const VirtualService& service) const;

 private:
  Ipvs(maps::Fd socket, std::uint16_t family) : socket_(std::move(socket)), family_(family) {}

  maps::Fd socket_;
  std::uint16_t family_;  ///< what generic netlink calls IPVS now
};

}  // namespace lb::agent
