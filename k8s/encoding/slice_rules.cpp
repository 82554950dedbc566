// SPDX-License-Identifier: Apache-2.0
// Interprets an EndpointSlice for a proxy: which endpoints count, and the defaults of absent fields.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "k8s/encoding/rules.hpp"
#include "k8s/objects/rfc3339.hpp"

namespace lb::k8s {
namespace {

constexpr std::size_t max_topology_labels = 16;
constexpr std::string_view trigger_annotation = "endpoints.kubernetes.io/last-change-trigger-time";

using rules::quoted;

/// Addresses that would reach the node itself, or several hosts (REL-52).
bool forbidden(const Address& address) {
  return address.unspecified() || address.loopback() || address.link_local() || address.multicast() ||
         address.broadcast();
}

bool all_plain(const wire::Endpoint& wire) {
  return rules::plain(wire.node_name) && rules::plain(wire.zone) &&
         std::ranges::all_of(wire.hint_zones, rules::plain) &&
         std::ranges::all_of(wire.hint_nodes, rules::plain);
}

}  // namespace

void SliceRules::port(const wire::SlicePort& wire) {
  if (!wire.name && origin_ == Origin::api_server) {
    problems_.add("name", "is missing; the port is skipped");
    return;
  }
  const auto protocol = rules::protocol(wire.protocol, problems_);
  const auto number = rules::port_number(wire.port, problems_);
  if (!protocol || !number) {
    return;
  }
  const auto name = wire.name.value_or("");
  if (!rules::port_name(name)) {
    problems_.add("name", quoted(name) + " is not a port name; the port is skipped");
    return;
  }
  const auto same = [&](const EndpointPort& other) { return other.name == name; };
  if (slice_.ports.size() == rules::max_ports) {
    problems_.add("more ports than a slice may have; skipped");
    return;
  }
  if (std::ranges::any_of(slice_.ports, same)) {
    problems_.add("name", quoted(name) + " is given twice; the later port is skipped");
    return;
  }
  slice_.ports.push_back({std::string(name), *protocol, *number});
}

std::optional<Address> SliceRules::address(const wire::Endpoint& wire) {
  if (!wire.address) {
    problems_.add("addresses", "is missing or empty; the endpoint is skipped");
    return std::nullopt;
  }
  const auto address = Address::parse(*wire.address);
  if (!address || forbidden(*address)) {
    const auto* why = address ? "cannot be an endpoint's address" : "is not an IP address";
    problems_.add("addresses", fmt::format("{} {}; the endpoint is skipped", quoted(*wire.address), why));
    return std::nullopt;
  }
  return address;
}

void SliceRules::topology(const wire::Endpoint& wire, Endpoint& endpoint) {
  for (const auto* pairs : {&wire.topology, &wire.beta_topology}) {
    for (const auto& [key, value] : *pairs) {
      if (!rules::plain(key) || !rules::plain(value) || endpoint.topology.size() == max_topology_labels) {
        problems_.add("a topology label is skipped: it is not valid, or the seventeenth");
        return;
      }
      if (key == zone_label) {
        endpoint.zone = endpoint.zone.empty() ? value : endpoint.zone;
      } else if (key != hostname_label) {
        endpoint.topology.emplace_back(key, value);
      } else if (pairs == &wire.beta_topology && endpoint.node_name.empty()) {
        endpoint.node_name = value;
      }
    }
  }
}

void SliceRules::endpoint(const wire::Endpoint& wire) {
  const auto parsed = address(wire);
  if (!parsed) {
    return;
  }
  if (!all_plain(wire)) {
    problems_.add("its node's name, a zone or a hint is not a label value; the endpoint is skipped");
    return;
  }
  auto& endpoint = slice_.endpoints.emplace_back();
  endpoint.address = *parsed;
  endpoint.ready = wire.ready.value_or(true);
  endpoint.serving = wire.serving.value_or(true);
  endpoint.terminating = wire.terminating.value_or(false);
  endpoint.node_name = wire.node_name;
  endpoint.zone = wire.zone;
  endpoint.hint_zones.assign(wire.hint_zones.begin(), wire.hint_zones.end());
  endpoint.hint_nodes.assign(wire.hint_nodes.begin(), wire.hint_nodes.end());
  topology(wire, endpoint);
}

/// Checked here and not for each endpoint: addressType may follow the endpoints.
void SliceRules::family(Family family) {
  slice_.family = family;
  const auto other = [&](const Endpoint& endpoint) { return endpoint.address.family() != family; };
  const auto first = std::ranges::find_if(slice_.endpoints, other);
  if (first == slice_.endpoints.end()) {
    return;
  }
  const auto text = first->address.text();
  const auto count = std::erase_if(slice_.endpoints, other);
  problems_.add("endpoints",
                fmt::format("{} of them not of the slice's addressType, {} first; skipped", count, text));
}

void SliceRules::weight(const wire::Metadata& metadata) {
  const auto annotation = rules::find(metadata.annotations, "sluice.lb/weight", problems_);
  if (!annotation) {
    return;
  }
  const auto text = rules::trimmed(*annotation);
  unsigned value = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stop != end || value > 100) {
    problems_.add(
        fmt::format("annotation sluice.lb/weight: {} is not in 0 to 100; taken as 1", quoted(text)));
    return;
  }
  slice_.weight = static_cast<std::uint8_t>(value);
}

/// Used only for measurements: an invalid time is reported, and ignored.
void SliceRules::trigger(const wire::Metadata& metadata) {
  const auto annotation = rules::find(metadata.annotations, trigger_annotation, problems_);
  if (!annotation) {
    return;
  }
  if (const auto time = unix_nanoseconds(*annotation)) {
    slice_.triggers.push_back(*time);
  } else {
    problems_.add(
        fmt::format("annotation {}: {} is not a time; ignored", trigger_annotation, quoted(*annotation)));
  }
}

std::optional<EndpointSlice> SliceRules::finish(ObjectKey key, const wire::Metadata& metadata,
                                                std::string_view address_type) {
  if (rules::find(metadata.labels, "service.kubernetes.io/headless", problems_) || address_type == "FQDN") {
    return std::nullopt;
  }
  if (address_type != "IPv4" && address_type != "IPv6") {
    problems_.add("addressType", address_type.empty()
                                     ? "is missing; the slice is ignored"
                                     : quoted(address_type) + " is not a known family; the slice is ignored");
    return std::nullopt;
  }
  const auto service = rules::find(metadata.labels, "kubernetes.io/service-name", problems_);
  if (!service || service->empty()) {
    problems_.add("has no label kubernetes.io/service-name; the slice is ignored");
    return std::nullopt;
  }
  if (!rules::object_name(*service)) {
    problems_.add(quoted(*service) + " is not a service's name; the slice is ignored");
    return std::nullopt;
  }
  slice_.key = std::move(key);
  slice_.service = *service;
  family(address_type == "IPv4" ? Family::ipv4 : Family::ipv6);
  weight(metadata);
  trigger(metadata);
  return std::move(slice_);
}

}  // namespace lb::k8s
