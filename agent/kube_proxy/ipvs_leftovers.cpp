// SPDX-License-Identifier: Apache-2.0
#include "agent/kube_proxy/ipvs_leftovers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <sstream>

#include "k8s/objects/host_port.hpp"

namespace lb::agent {
namespace {

constexpr std::string_view prefix = "KUBE-";
constexpr std::string_view ipv6_prefix = "KUBE-6-";
constexpr std::size_t max_name_length = 31;  // IPSET_MAXNAMELEN without the terminating zero; kube-proxy
                                             // truncates

// From pkg/proxy/ipvs/ipset.go, without the prefix.
constexpr std::array<std::string_view, 19> names = {"LOOP-BACK",
                                                    "CLUSTER-IP",
                                                    "EXTERNAL-IP",
                                                    "EXTERNAL-IP-LOCAL",
                                                    "LOAD-BALANCER",
                                                    "LOAD-BALANCER-LOCAL",
                                                    "LOAD-BALANCER-FW",
                                                    "LOAD-BALANCER-SOURCE-IP",
                                                    "LOAD-BALANCER-SOURCE-CIDR",
                                                    "NODE-PORT-TCP",
                                                    "NODE-PORT-LOCAL-TCP",
                                                    "NODE-PORT-UDP",
                                                    "NODE-PORT-LOCAL-UDP",
                                                    "NODE-PORT-SCTP",
                                                    "NODE-PORT-SCTP-HASH",
                                                    "NODE-PORT-LOCAL-SCTP",
                                                    "NODE-PORT-LOCAL-SCTP-HASH",
                                                    "HEALTH-CHECK-NODE-PORT",
                                                    "IPVS-IPS"};

/// The protocol as ipvsadm writes it.
const char* protocol_word(lb_protocol protocol) {
  return protocol == LB_TCP ? "tcp" : protocol == LB_UDP ? "udp" : "sctp";
}

/// Name of the set with all node ports of a protocol and family.
std::string node_ports(lb_protocol protocol, k8s::Family family) {
  const auto start = family == k8s::Family::ipv4 ? prefix : ipv6_prefix;
  const auto* end = protocol == LB_TCP ? "TCP" : protocol == LB_UDP ? "UDP" : "SCTP-HASH";
  return fmt::format("{}NODE-PORT-{}", start, end);
}

bool is_node_port(const VirtualService& service, const std::vector<IpSet>& sets) {
  const auto name = node_ports(service.protocol, service.address.family());
  const auto set = std::ranges::find(sets, name, &IpSet::name);
  return set != sets.end() && std::ranges::any_of(set->entries, [&](const IpSetEntry& entry) {
           return entry.port == service.port && (!entry.address || *entry.address == service.address);
         });
}

std::optional<lb_protocol> protocol_of(std::string_view word) {
  if (word == "TCP") {
    return LB_TCP;
  }
  if (word == "UDP") {
    return LB_UDP;
  }
  if (word == "SCTP") {
    return LB_SCTP;
  }
  return std::nullopt;
}

/// Parses eight hexadecimal digits, or IPv6's text.
std::optional<k8s::Address> read_address(const std::string& word) {
  if (word.find(':') != std::string::npos) {
    return k8s::Address::parse(word);
  }
  const auto number = std::strtoul(word.c_str(), nullptr, 16);
  return k8s::Address::parse(fmt::format("{}.{}.{}.{}", number >> 24 & 0xff, number >> 16 & 0xff,
                                         number >> 8 & 0xff, number & 0xff));
}

std::optional<IpvsConnection> read_connection(const std::string& line) {
  std::istringstream words(line);
  std::string protocol, from, from_port, to, to_port, server, server_port, state;
  words >> protocol >> from >> from_port >> to >> to_port >> server >> server_port >> state;
  const auto number = protocol_of(protocol);
  const auto source = read_address(from);
  const auto destination = read_address(to);
  if (!words || !number || !source || !destination) {
    return std::nullopt;
  }
  const auto port = [](const std::string& word) {
    return static_cast<std::uint16_t>(std::strtoul(word.c_str(), nullptr, 16));
  };
  return IpvsConnection{{.source = *source,
                         .destination = *destination,
                         .source_port = port(from_port),
                         .destination_port = port(to_port),
                         .protocol = *number},
                        std::move(state)};
}

}  // namespace

bool is_kube_proxy_set(std::string_view name) {
  return std::ranges::any_of(names, [name](std::string_view each) {
    return name == fmt::format("{}{}", prefix, each) ||
           name == fmt::format("{}{}", ipv6_prefix, each).substr(0, max_name_length);
  });
}

IpvsRemoval plan_ipvs_removal(const IpvsState& state) {
  IpvsRemoval removal;
  for (const auto& service : state.services) {
    if (std::ranges::binary_search(state.bound, service.address) || is_node_port(service, state.sets)) {
      removal.services.push_back(service);
    }
  }
  for (const auto& set : state.sets) {
    if (is_kube_proxy_set(set.name)) {
      removal.sets.push_back(set.name);
    }
  }
  return removal;
}

std::string connection_text(const TrackedTuple& requests) {
  return fmt::format("{} {} to {}", protocol_word(requests.protocol),
                     k8s::host_port(requests.source.text(), requests.source_port),
                     k8s::host_port(requests.destination.text(), requests.destination_port));
}

std::string virtual_service_text(const VirtualService& service) {
  return fmt::format("virtual service {} {}", protocol_word(service.protocol),
                     k8s::host_port(service.address.text(), service.port));
}

std::vector<IpvsConnection> read_ipvs_connections(std::istream& text) {
  std::vector<IpvsConnection> connections;
  for (std::string line; std::getline(text, line);) {
    if (auto connection = read_connection(line)) {
      connections.push_back(std::move(*connection));
    }
  }
  return connections;
}

std::vector<IpvsConnection> carried_by(const IpvsRemoval& removal, std::vector<IpvsConnection> connections) {
  std::erase_if(connections, [&](const IpvsConnection& each) {
    const VirtualService service{each.requests.protocol, each.requests.destination,
                                 each.requests.destination_port};
    return (each.state != "ESTABLISHED" && each.state != "UDP") ||
           std::ranges::find(removal.services, service) == removal.services.end();
  });
  return connections;
}

std::string why_not_handed(const IpvsConnection& connection, const std::vector<k8s::Address>& bound,
                           ConntrackTable& conntrack) {
  if (connection.requests.protocol == LB_SCTP) {
    return "SCTP";
  }
  if (std::ranges::binary_search(bound, connection.requests.source)) {
    return "the node's own, from an address of kube-ipvs0";
  }
  const auto tracked = conntrack.find(connection.requests);
  return tracked && tracked->has_other_destination() ? "" : "conntrack does not know its backend";
}

boost::system::error_code hand_over_ipvs(const IpvsConnection& connection, ConntrackTable& conntrack) {
  const auto tracked = conntrack.find(connection.requests);
  return tracked ? hand_to_conntrack(conntrack, *tracked) : tracked.error();
}

}  // namespace lb::agent
