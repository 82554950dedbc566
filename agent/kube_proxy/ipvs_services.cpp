#include "agent/kube_proxy/ipvs_services.hpp"

#include <endian.h>
#include <linux/genetlink.h>
#include <linux/ip_vs.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "agent/base/system_error.hpp"
#include "agent/netlink/node_watch.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

using netlink::attribute;
using netlink::Bytes;
using netlink::read;
using netlink::Request;
using netlink::Wanted;

constexpr unsigned version = 1;  // IPVS_GENL_VERSION

/// A field of 16 bytes, of which IPv4 uses the first four.
std::optional<k8s::Address> ip_of(Bytes bytes, int family) {
  const std::size_t size = family == AF_INET ? 4 : 16;
  if (bytes.size() < size) return std::nullopt;
  return address_of(bytes.data(), size);
}

std::uint16_t port_of(Bytes bytes) { return be16toh(read<std::uint16_t>(bytes).value_or(0)); }

int family_of(Bytes bytes) { return read<std::uint16_t>(bytes).value_or(0) == AF_INET ? AF_INET : AF_INET6; }

std::vector<k8s::Address> service_addresses() {
  std::vector<k8s::Address> addresses;
  for (const auto& [index, link] : read_network(Routes::ignored).links()) {
    if (link.device.name == ipvs_device) addresses = link.addresses;
  }
  std::ranges::sort(addresses);
  return addresses;
}

Request request_of(std::uint16_t family, std::uint8_t command, Wanted wanted) {
  return {family, wanted, genlmsghdr{command, version, 0}};
}

/// What generic netlink calls IPVS now.
boost::system::result<std::uint16_t> family_number(int socket) {
  auto request = request_of(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, Wanted::one);
  request.add(CTRL_ATTR_FAMILY_NAME, std::string_view(IPVS_GENL_NAME));
  std::optional<std::uint16_t> number;
  const auto error = netlink::ask(socket, std::move(request), [&](const auto&, Bytes body) {
    number = read<std::uint16_t>(attribute(netlink::after(body, sizeof(genlmsghdr)), CTRL_ATTR_FAMILY_ID));
  });
  if (error) return error;
  return number ? boost::system::result<std::uint16_t>(*number) : system_error(ENOENT);
}

Bytes service_in(Bytes body) {
  return attribute(netlink::after(body, sizeof(genlmsghdr)), IPVS_CMD_ATTR_SERVICE);
}

}  // namespace

void IpvsDump::take(Bytes body) {
  if (const auto service = service_in(body); !service.empty()) {
    take_service(service);
  } else {
    take_server(attribute(netlink::after(body, sizeof(genlmsghdr)), IPVS_CMD_ATTR_DEST));
  }
}

void IpvsDump::take_service(Bytes attributes) {
  const auto family = family_of(attribute(attributes, IPVS_SVC_ATTR_AF));
  const auto address = ip_of(attribute(attributes, IPVS_SVC_ATTR_ADDR), family).value_or(k8s::Address{});
  const bool node_port = !std::ranges::binary_search(service_addresses_, address);
  const auto protocol = read<std::uint16_t>(attribute(attributes, IPVS_SVC_ATTR_PROTOCOL)).value_or(0);
  ServedFrontend frontend;
  const auto flags = read<ip_vs_flags>(attribute(attributes, IPVS_SVC_ATTR_FLAGS));
  if (flags && (flags->flags & IP_VS_SVC_F_PERSISTENT) != 0) {
    frontend.affinity_seconds = read<std::uint32_t>(attribute(attributes, IPVS_SVC_ATTR_TIMEOUT)).value_or(0);
  }
  services_.emplace_back(
      FrontendId{node_port ? node_port_address(family) : address,
                 port_of(attribute(attributes, IPVS_SVC_ATTR_PORT)), static_cast<lb_protocol>(protocol)},
      std::move(frontend));
}

void IpvsDump::take_server(Bytes attributes) {
  const auto weight = read<std::uint32_t>(attribute(attributes, IPVS_DEST_ATTR_WEIGHT)).value_or(0);
  if (services_.empty() || weight == 0) return;
  const auto family = family_of(attribute(attributes, IPVS_DEST_ATTR_ADDR_FAMILY));
  const auto address = ip_of(attribute(attributes, IPVS_DEST_ATTR_ADDR), family);
  if (!address) return;
  services_.back().second.outside.endpoints.push_back(
      {*address, port_of(attribute(attributes, IPVS_DEST_ATTR_PORT))});
}

ServedFrontends IpvsDump::frontends() const {
  ServedFrontends frontends;
  for (auto [id, frontend] : services_) {
    sort_endpoints(frontend.outside.endpoints);
    frontend.inside = frontend.outside;
    frontends.emplace(
        id, std::move(frontend));  // a node port has a virtual service on each of the node's addresses
  }
  return frontends;
}

boost::system::result<ServedFrontends> read_ipvs_services() {
  const maps::Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC));
  const auto family = family_number(socket.get());
  if (!family) return family.error();
  std::vector<std::vector<std::byte>> services;
  const auto listed =
      netlink::ask(socket.get(), request_of(*family, IPVS_CMD_GET_SERVICE, Wanted::all),
                   [&](const auto&, Bytes body) { services.emplace_back(body.begin(), body.end()); });
  if (listed) return listed;
  IpvsDump dump(service_addresses());
  for (const auto& service : services) {
    dump.take(service);
    auto request = request_of(*family, IPVS_CMD_GET_DEST, Wanted::all);
    request.add_bytes(IPVS_CMD_ATTR_SERVICE | NLA_F_NESTED, service_in(service));
    const auto error =
        netlink::ask(socket.get(), std::move(request), [&](const auto&, Bytes body) { dump.take(body); });
    if (error && error.value() != ESRCH && error.value() != ENOENT) return error;  // or it has gone meanwhile
  }
  return dump.frontends();
}

}  // namespace lb::agent
