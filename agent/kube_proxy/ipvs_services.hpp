// SPDX-License-Identifier: Apache-2.0
// kube-proxy's IPVS mode: reads the kernel's virtual services by generic netlink.
#pragma once

#include <linux/netlink.h>

#include <boost/system/result.hpp>
#include <vector>

#include "agent/kube_proxy/served_frontends.hpp"
#include "agent/netlink/netlink.hpp"

namespace lb::agent {

/// The device to which kube-proxy adds the addresses of all services, and only those.
inline constexpr const char* ipvs_device = "kube-ipvs0";
/// The device's addresses, sorted; empty if there is no such device.
[[nodiscard]] std::vector<k8s::Address> ipvs_device_addresses();

/// Collects the kernel's list. Pure.
class IpvsDump {
 public:
  /// `service_addresses`: the addresses of ipvs_device; a virtual service at another address is a node port.
  /// Sorted.
  explicit IpvsDump(std::vector<k8s::Address> service_addresses)
      : service_addresses_(std::move(service_addresses)) {}

  /// Takes a reply to IPVS_CMD_GET_SERVICE, followed by those to IPVS_CMD_GET_DEST for the same service.
  /// Malformed messages are skipped, as are services by firewall mark, which kube-proxy makes none of; a
  /// server of weight 0 gets no new connections, and is left out.
  void take(netlink::Bytes body);

  /// The frontends, with equal sets for clients inside and outside, and without names: IPVS has neither.
  [[nodiscard]] ServedFrontends frontends() const;

 private:
  void take_service(netlink::Bytes attributes);
  void take_server(netlink::Bytes attributes);

  std::vector<k8s::Address> service_addresses_;
  std::vector<std::pair<FrontendId, ServedFrontend>> services_;
  bool takes_servers_ = false;  ///< the servers that follow are those of services_.back()
};

/// Fails with ENOENT if the kernel has no IPVS, EPERM without CAP_NET_ADMIN.
[[nodiscard]] boost::system::result<ServedFrontends> read_ipvs_services();

}  // namespace lb::agent
