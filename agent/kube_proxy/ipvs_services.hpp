// kube-proxy's IPVS mode: the kernel's virtual services, by generic netlink.
#pragma once

#include <linux/netlink.h>

#include <boost/system/result.hpp>
#include <vector>

#include "agent/kube_proxy/served_frontends.hpp"
#include "agent/netlink/netlink.hpp"

namespace lb::agent {

/// Holds the addresses of all services, and nothing else; kube-proxy makes it.
inline constexpr const char* ipvs_device = "kube-ipvs0";
/// Sorted; none where there is no such device.
[[nodiscard]] std::vector<k8s::Address> ipvs_device_addresses();

/// What the kernel lists. Pure.
class IpvsDump {
 public:
  /// `service_addresses`: those of ipvs_device; a virtual service elsewhere is a node port. Sorted.
  explicit IpvsDump(std::vector<k8s::Address> service_addresses)
      : service_addresses_(std::move(service_addresses)) {}

  /// An answer to IPVS_CMD_GET_SERVICE, followed by those to IPVS_CMD_GET_DEST about the same. What is not as
  /// the kernel writes it is passed over; a server without weight gets no new connections, and is left out.
  void take(netlink::Bytes body);

  /// With the same set for clients in- and outside, and no service's name: IPVS knows of neither.
  [[nodiscard]] ServedFrontends frontends() const;

 private:
  void take_service(netlink::Bytes attributes);
  void take_server(netlink::Bytes attributes);

  std::vector<k8s::Address> service_addresses_;
  std::vector<std::pair<FrontendId, ServedFrontend>> services_;
};

/// Fails with ENOENT where the kernel has no IPVS, EPERM without CAP_NET_ADMIN.
[[nodiscard]] boost::system::result<ServedFrontends> read_ipvs_services();

}  // namespace lb::agent
