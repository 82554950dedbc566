// SPDX-License-Identifier: Apache-2.0
#include "agent/kube_proxy/ipvs_services.hpp"

#include <endian.h>
#include <linux/ip_vs.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/netlink/ipvs.hpp"
#include "agent/netlink/node_watch.hpp"

namespace lb::agent {

using netlink::attribute;
using netlink::Bytes;
using netlink::read;

std::vector<k8s::Address> ipvs_device_addresses() {
  std::vector<k8s::Address> addresses;
  for (const auto& [index, link] : read_network(Routes::ignored).links()) {
    if (link.device.name == ipvs_device) {
      addresses = link.addresses;
    }
  }
  std::ranges::sort(addresses);
  return addresses;
}

void IpvsDump::take(Bytes body) {
  if (const auto service = ipvs_service_in(body); !service.empty()) {
    take_service(service);
  } else {
    take_server(ipvs_server_in(body));
  }
}

void IpvsDump::take_service(Bytes attributes) {
  const auto found = virtual_service_of(attributes);
  takes_servers_ = found.has_value();
  if (!takes_servers_) {
    return;
  }
  const auto& service = *found;
  const auto ipv4 = read<std::uint16_t>(attribute(attributes, IPVS_SVC_ATTR_AF)).value_or(0) == AF_INET;
  const bool node_port = !std::ranges::binary_search(service_addresses_, service.address);
  ServedFrontend frontend;
  const auto flags = read<ip_vs_flags>(attribute(attributes, IPVS_SVC_ATTR_FLAGS));
  if (flags && (flags->flags & IP_VS_SVC_F_PERSISTENT) != 0) {
    frontend.affinity_seconds = read<std::uint32_t>(attribute(attributes, IPVS_SVC_ATTR_TIMEOUT)).value_or(0);
  }
  services_.emplace_back(
      FrontendId{node_port ? node_port_address(ipv4 ? AF_INET : AF_INET6) : service.address, service.port,
                 service.protocol},
      std::move(frontend));
}

void IpvsDump::take_server(Bytes attributes) {
  const auto weight = read<std::uint32_t>(attribute(attributes, IPVS_DEST_ATTR_WEIGHT)).value_or(0);
  if (!takes_servers_ || weight == 0) {
    return;
  }
  const auto address = ipvs_address(attribute(attributes, IPVS_DEST_ATTR_ADDR),
                                    attribute(attributes, IPVS_DEST_ATTR_ADDR_FAMILY));
  if (!address) {
    return;
  }
  const auto port = read<std::uint16_t>(attribute(attributes, IPVS_DEST_ATTR_PORT)).value_or(0);
  services_.back().second.outside.endpoints.push_back({*address, be16toh(port)});
}

ServedFrontends IpvsDump::frontends() const {
  ServedFrontends frontends;
  for (auto [id, frontend] : services_) {
    sort_unique(frontend.outside.endpoints);
    frontend.inside = frontend.outside;
    frontends.emplace(id, std::move(frontend));  // a node port has a virtual service at each node address
  }
  return frontends;
}

boost::system::result<ServedFrontends> read_ipvs_services() {
  const auto ipvs = Ipvs::open();
  if (!ipvs) {
    return ipvs.error();
  }
  std::vector<std::vector<std::byte>> services;
  const auto listed =
      ipvs->list_services([&](const auto&, Bytes body) { services.emplace_back(body.begin(), body.end()); });
  if (listed) {
    return listed;
  }
  IpvsDump dump(ipvs_device_addresses());
  for (const auto& service : services) {
    dump.take(service);
    const auto error = ipvs->list_servers(service, [&](const auto&, Bytes body) { dump.take(body); });
    // The service may have been removed meanwhile.
    if (error && error.value() != ESRCH && error.value() != ENOENT) {
      return error;
    }
  }
  return dump.frontends();
}

}  // namespace lb::agent
