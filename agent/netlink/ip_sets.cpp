// SPDX-License-Identifier: Apache-2.0
#include "agent/netlink/ip_sets.hpp"

#include <endian.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <sys/socket.h>

#include <cerrno>
#include <filesystem>
#include <span>
#include <utility>

#include "agent/base/system_error.hpp"
#include "agent/netlink/netfilter.hpp"
#include "k8s/objects/raw_address.hpp"

namespace lb::agent {
namespace {

using netlink::attribute;
using netlink::Bytes;
using netlink::Request;
using netlink::Wanted;

constexpr std::uint8_t protocol_version = IPSET_PROTOCOL_MIN;  // supported by every kernel

Request request_of(int command, Wanted wanted) {
  auto request = netfilter_request(NFNL_SUBSYS_IPSET, command, wanted, AF_INET);
  request.add_bytes(IPSET_ATTR_PROTOCOL, std::as_bytes(std::span(&protocol_version, 1)));
  return request;
}

IpSetEntry read_entry(Bytes data) {
  IpSetEntry entry;
  const auto address = attribute(data, IPSET_ATTR_IP);
  const auto ipv4 = attribute(address, IPSET_ATTR_IPADDR_IPV4);
  entry.address = k8s::read_address(ipv4.empty() ? attribute(address, IPSET_ATTR_IPADDR_IPV6) : ipv4);
  entry.port = be16toh(netlink::read<std::uint16_t>(attribute(data, IPSET_ATTR_PORT)).value_or(0));
  return entry;
}

/// Whether the module is loaded: querying sets would load it.
bool is_loaded() {
  std::error_code ignored;
  return std::filesystem::exists("/sys/module/ip_set", ignored);
}

/// Maps ipset's own error numbers, which all mean a refusal, to EPROTO.
boost::system::error_code known(const boost::system::error_code& error) {
  return error.value() >= IPSET_ERR_PRIVATE ? system_error(EPROTO) : error;
}

}  // namespace

IpSet read_ip_set(Bytes body) {
  const auto attributes = netlink::after(body, sizeof(nfgenmsg));
  IpSet set;
  set.name = netlink::text_of(attribute(attributes, IPSET_ATTR_SETNAME));
  netlink::for_each_attribute(attribute(attributes, IPSET_ATTR_ADT), [&](unsigned short type, Bytes data) {
    if (type == IPSET_ATTR_DATA) {
      set.entries.push_back(read_entry(data));
    }
  });
  return set;
}

boost::system::result<std::vector<IpSet>> list_ip_sets() {
  std::vector<IpSet> sets;
  if (!is_loaded()) {
    return sets;
  }
  const auto socket = open_netfilter();
  const auto error =
      netlink::ask(socket.get(), request_of(IPSET_CMD_LIST, Wanted::all), [&](const auto&, Bytes body) {
        auto part = read_ip_set(body);
        if (part.name.empty()) {
          return;
        }
        if (sets.empty() || sets.back().name != part.name) {
          sets.push_back(std::move(part));
        } else {
          auto& entries = sets.back().entries;
          entries.insert(entries.end(), part.entries.begin(), part.entries.end());
        }
      });
  if (error) {
    return known(error);
  }
  return sets;
}

boost::system::error_code destroy_ip_set(std::string_view name) {
  const auto socket = open_netfilter();
  auto request = request_of(IPSET_CMD_DESTROY, Wanted::one);
  request.add(IPSET_ATTR_SETNAME, name);
  return known(netlink::ask(socket.get(), std::move(request), [](const auto&, Bytes) {}));
}

}  // namespace lb::agent
