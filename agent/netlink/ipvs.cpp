// SPDX-License-Identifier: Apache-2.0
#include "agent/netlink/ipvs.hpp"

#include <endian.h>
#include <linux/genetlink.h>
#include <linux/ip_vs.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string_view>

#include "agent/base/system_error.hpp"
#include "k8s/objects/raw_address.hpp"

namespace lb::agent {
namespace {

using netlink::attribute;
using netlink::Bytes;
using netlink::read;
using netlink::Request;
using netlink::Wanted;

constexpr unsigned version = 1;  // IPVS_GENL_VERSION

Request request_of(std::uint16_t family, std::uint8_t command, Wanted wanted) {
  return {family, wanted, genlmsghdr{command, version, 0}};
}

boost::system::result<std::uint16_t> family_number(int socket) {
  auto request = request_of(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, Wanted::one);
  request.add(CTRL_ATTR_FAMILY_NAME, std::string_view(IPVS_GENL_NAME));
  std::optional<std::uint16_t> number;
  const auto error = netlink::ask(socket, std::move(request), [&](const auto&, Bytes body) {
    number = read<std::uint16_t>(attribute(netlink::after(body, sizeof(genlmsghdr)), CTRL_ATTR_FAMILY_ID));
  });
  if (error) {
    return error;
  }
  return number ? boost::system::result<std::uint16_t>(*number) : system_error(ENOENT);
}

void add_number(Request& request, std::uint16_t type, std::uint16_t number) {
  request.add_bytes(type, std::as_bytes(std::span(&number, 1)));
}

void add_service(Request& request, const VirtualService& service) {
  const bool ipv4 = service.address.family() == k8s::Family::ipv4;
  std::array<std::uint8_t, 16> field{};
  std::copy(service.address.bytes.begin() + (ipv4 ? k8s::ipv4_at : 0), service.address.bytes.end(),
            field.begin());
  request.nest(IPVS_CMD_ATTR_SERVICE, [&](Request& inner) {
    add_number(inner, IPVS_SVC_ATTR_AF, ipv4 ? AF_INET : AF_INET6);
    add_number(inner, IPVS_SVC_ATTR_PROTOCOL, service.protocol);
    inner.add_bytes(IPVS_SVC_ATTR_ADDR, std::as_bytes(std::span(field)));
    inner.add_network_order(IPVS_SVC_ATTR_PORT, service.port);
  });
}

}  // namespace

Bytes ipvs_service_in(Bytes body) {
  return attribute(netlink::after(body, sizeof(genlmsghdr)), IPVS_CMD_ATTR_SERVICE);
}

Bytes ipvs_server_in(Bytes body) {
  return attribute(netlink::after(body, sizeof(genlmsghdr)), IPVS_CMD_ATTR_DEST);
}

std::optional<k8s::Address> ipvs_address(Bytes field, Bytes family) {
  const std::size_t size = read<std::uint16_t>(family).value_or(0) == AF_INET ? 4 : 16;
  return field.size() < size ? std::nullopt : k8s::read_address(field.first(size));
}

std::optional<VirtualService> virtual_service_of(Bytes attributes) {
  const auto address =
      ipvs_address(attribute(attributes, IPVS_SVC_ATTR_ADDR), attribute(attributes, IPVS_SVC_ATTR_AF));
  if (!address) {
    return std::nullopt;
  }
  const auto protocol = read<std::uint16_t>(attribute(attributes, IPVS_SVC_ATTR_PROTOCOL)).value_or(0);
  const auto port = read<std::uint16_t>(attribute(attributes, IPVS_SVC_ATTR_PORT)).value_or(0);
  return VirtualService{static_cast<lb_protocol>(protocol), *address, be16toh(port)};
}

boost::system::result<Ipvs> Ipvs::open() {
  maps::Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC));
  const auto family = family_number(socket.get());
  if (!family) {
    return family.error();
  }
  return Ipvs(std::move(socket), *family);
}

boost::system::error_code Ipvs::list_services(const netlink::Take& take) const {
  return netlink::ask(socket_.get(), request_of(family_, IPVS_CMD_GET_SERVICE, Wanted::all), take);
}

boost::system::error_code Ipvs::list_servers(Bytes service, const netlink::Take& take) const {
  auto request = request_of(family_, IPVS_CMD_GET_DEST, Wanted::all);
  request.add_bytes(IPVS_CMD_ATTR_SERVICE | NLA_F_NESTED, ipvs_service_in(service));
  return netlink::ask(socket_.get(), std::move(request), take);
}

boost::system::error_code Ipvs::remove(const VirtualService& service) const {
  auto request = request_of(family_, IPVS_CMD_DEL_SERVICE, Wanted::one);
  add_service(request, service);
  return netlink::ask(socket_.get(), std::move(request), [](const auto&, Bytes) {});
}

}  // namespace lb::agent
