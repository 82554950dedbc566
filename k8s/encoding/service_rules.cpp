// SPDX-License-Identifier: Apache-2.0
// Interprets a Service for a proxy: its addresses by family, its ports, its policies.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "k8s/encoding/rules.hpp"
#include "k8s/objects/rfc3339.hpp"

namespace lb::k8s {
namespace {

constexpr std::size_t max_topology_keys = 16;
constexpr std::int64_t default_affinity_seconds = 10800;
constexpr std::int64_t max_affinity_seconds = 86400;

using rules::quoted;

/// 0 for an invalid time.
std::int64_t unix_seconds(std::string_view text) {
  return unix_nanoseconds(text).value_or(0) / 1'000'000'000;
}

/// An address that may be a frontend. Other addresses would capture traffic that is not for a Service
/// (REL-51).
std::optional<Address> frontend_address(std::string_view text, Problems& problems) {
  const auto address = Address::parse(text);
  if (!address) {
    problems.add(quoted(text) + " is not an IP address; skipped");
    return std::nullopt;
  }
  if (address->unspecified() || address->loopback() || address->multicast() || address->broadcast()) {
    problems.add(quoted(text) + " cannot be a service's address; skipped");
    return std::nullopt;
  }
  return address;
}

std::optional<Family> family_of(std::string_view text) {
  if (text == "IPv4") {
    return Family::ipv4;
  }
  if (text == "IPv6") {
    return Family::ipv6;
  }
  return std::nullopt;
}

std::uint16_t node_port_number(std::optional<std::int64_t> number, std::string_view member,
                               Problems& problems) {
  if (!number || (*number >= 0 && *number <= 65535)) {
    return static_cast<std::uint16_t>(number.value_or(0));
  }
  problems.add(member, fmt::format("{} is not in 0 to 65535; taken as none", *number));
  return 0;
}

TrafficPolicy policy(std::string_view text, std::string_view member, Problems& problems) {
  if (text == "Local") {
    return TrafficPolicy::local;
  }
  if (!text.empty() && text != "Cluster") {
    problems.add(member, quoted(text) + " is neither Cluster nor Local; taken as Cluster");
  }
  return TrafficPolicy::cluster;
}

ServiceType service_type(std::string_view text, Problems& problems) {
  if (text == "NodePort") {
    return ServiceType::node_port;
  }
  if (text == "LoadBalancer") {
    return ServiceType::load_balancer;
  }
  if (text == "ExternalName") {
    return ServiceType::external_name;
  }
  if (!text.empty() && text != "ClusterIP") {
    problems.add("type", quoted(text) + " is not a service type; taken as ClusterIP");
  }
  return ServiceType::cluster_ip;
}

/// One pass of a radix sort, by one byte of each address; stable.
void sort_by(std::size_t byte, std::vector<Address>& addresses, std::vector<Address>& sorted) {
  std::array<std::size_t, 257> places{};
  for (const auto& address : addresses) {
    ++places.at(address.bytes.at(byte) + 1U);
  }
  std::partial_sum(places.begin(), places.end(), places.begin());
  sorted.resize(addresses.size());
  for (const auto& address : addresses) {
    sorted[places.at(address.bytes.at(byte))++] = address;
  }
  addresses.swap(sorted);
}

/// Radix sort from the last byte to the first, only by bytes that differ: an object of 1.5 MB has 150,000
/// addresses, which differ in few bytes.
void sort_unique(std::vector<Address>& addresses) {
  if (addresses.empty()) {
    return;
  }
  std::array<bool, 16> differs{};
  for (const auto& address : addresses) {
    for (std::size_t byte = 0; byte < differs.size(); ++byte) {
      differs.at(byte) = differs.at(byte) || address.bytes.at(byte) != addresses.front().bytes.at(byte);
    }
  }
  std::vector<Address> sorted;
  for (auto byte = differs.size(); byte-- > 0;) {
    if (differs.at(byte)) {
      sort_by(byte, addresses, sorted);
    }
  }
  const auto rest = std::ranges::unique(addresses);
  addresses.erase(rest.begin(), rest.end());
}

}  // namespace

void ServiceRules::port(const wire::ServicePort& wire) {
  const auto protocol = rules::protocol(wire.protocol, problems_);
  const auto number = rules::port_number(wire.port, problems_);
  if (!protocol || !number) {
    return;
  }
  if (!rules::port_name(wire.name)) {
    problems_.add("name", quoted(wire.name) + " is not a port name; the port is skipped");
    return;
  }
  const auto same = [&](const ServicePort& other) {
    return other.name == wire.name || (other.port == *number && other.protocol == *protocol);
  };
  if (service_.ports.size() == rules::max_ports) {
    problems_.add("more ports than a service may have; skipped");
    return;
  }
  if (std::ranges::any_of(service_.ports, same)) {
    problems_.add("another port has the same name, or the same number and protocol; the port is skipped");
    return;
  }
  const auto node_port = node_port_number(wire.node_port, "nodePort", problems_);
  service_.ports.push_back({std::string(wire.name), *protocol, *number, node_port});
}

void ServiceRules::external_ip(std::string_view text) {
  const auto address = frontend_address(text, problems_);
  if (address && address->link_local()) {
    problems_.add(quoted(text) + " is link-local; skipped");
  } else if (address) {
    service_.external_ips.push_back(*address);
  }
}

void ServiceRules::source_range(std::string_view text) {
  if (const auto prefix = Prefix::parse(rules::trimmed(text))) {
    service_.source_ranges.push_back(*prefix);
  } else {
    problems_.add(quoted(text) + " is not an address range; skipped");
  }
}

void ServiceRules::ingress(const wire::Ingress& ingress) {
  if (ingress.address.empty() || ingress.mode == "Proxy") {
    return;
  }
  if (!ingress.mode.empty() && ingress.mode != "VIP") {
    problems_.add("ipMode", quoted(ingress.mode) + " is neither VIP nor Proxy; the address is not captured");
    return;
  }
  const Problems::Step step(problems_, "ip");
  if (const auto address = frontend_address(ingress.address, problems_)) {
    service_.load_balancer_ips.push_back(*address);
  }
}

void ServiceRules::cluster_ip(std::string_view text, std::optional<Family> family, std::size_t index) {
  const Problems::Step list(problems_, "clusterIPs");
  const Problems::Step element(problems_, index);
  const auto address = frontend_address(text, problems_);
  if (!address) {
    return;
  }
  if (family && address->family() != *family) {
    problems_.add(quoted(text) + " is not of the family that ipFamilies states; skipped");
    return;
  }
  const auto same_family = [&](const Address& other) { return other.family() == address->family(); };
  if (std::ranges::any_of(service_.cluster_ips, same_family)) {
    problems_.add(quoted(text) + " is a second address of its family; skipped");
    return;
  }
  service_.cluster_ips.push_back(*address);
}

/// SEM-9: clusterIPs[i] is of ipFamilies[i]; without ipFamilies only spec.clusterIP counts. A manifest gets
/// the API server's defaults: families by the addresses.
void ServiceRules::addresses(const wire::Service& wire) {
  auto texts = wire.cluster_ips;
  if (texts.empty() && wire.cluster_ip) {
    texts.push_back(*wire.cluster_ip);
  }
  if (wire.families.empty() && origin_ == Origin::api_server && wire.cluster_ip) {
    texts = {*wire.cluster_ip};
  }
  service_.headless = texts.empty() || texts[0].empty() || texts[0] == "None";
  if (service_.headless) {
    return;
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (wire.families.empty()) {
      cluster_ip(texts[i], std::nullopt, i);
    } else if (i < wire.families.size() && family_of(wire.families[i])) {
      cluster_ip(texts[i], family_of(wire.families[i]), i);
    } else {
      problems_.add("clusterIPs", fmt::format("{} has no family in ipFamilies; skipped", quoted(texts[i])));
    }
  }
}

void ServiceRules::policies(const wire::Service& wire) {
  service_.internal_policy = policy(wire.internal_policy, "internalTrafficPolicy", problems_);
  const auto external = policy(wire.external_policy, "externalTrafficPolicy", problems_);
  const bool has_external_policy =
      service_.type == ServiceType::node_port || service_.type == ServiceType::load_balancer ||
      (service_.type == ServiceType::cluster_ip && !service_.external_ips.empty());
  service_.external_policy = has_external_policy ? external : TrafficPolicy::cluster;
  if (service_.type == ServiceType::load_balancer && service_.external_policy == TrafficPolicy::local) {
    service_.health_check_node_port =
        node_port_number(wire.health_check_node_port, "healthCheckNodePort", problems_);
  }
}

void ServiceRules::affinity(const wire::Service& wire) {
  if (wire.affinity.empty() || wire.affinity == "None") {
    return;
  }
  if (wire.affinity != "ClientIP") {
    problems_.add("sessionAffinity", quoted(wire.affinity) + " is neither None nor ClientIP; taken as None");
    return;
  }
  auto seconds = wire.affinity_seconds.value_or(default_affinity_seconds);
  if (seconds < 1 || seconds > max_affinity_seconds) {
    problems_.add("sessionAffinityConfig",
                  fmt::format("timeoutSeconds {} is not in 1 to 86400; taken as 10800", seconds));
    seconds = default_affinity_seconds;
  }
  service_.affinity_seconds = static_cast<std::uint32_t>(seconds);
}

void ServiceRules::topology_key(std::string_view text) {
  const auto key = rules::trimmed(text);
  auto& keys = service_.topology_keys;
  if (key.empty() || !rules::plain(key)) {
    problems_.add(quoted(text) + " is not a label key; skipped");
  } else if (!keys.empty() && keys.back() == "*") {
    problems_.add(quoted(key) + " stands after \"*\", which takes all; skipped");
  } else if (std::ranges::find(keys, key) != keys.end()) {
    problems_.add(quoted(key) + " is given twice; skipped");
  } else if (keys.size() == max_topology_keys) {
    problems_.add(fmt::format("more than 16 topology keys; {} and those after it are skipped", quoted(key)));
  } else {
    keys.emplace_back(key);
  }
}

/// Choice H: the annotation is read everywhere, the field only in manifests (the API server drops it).
void ServiceRules::topology(const wire::Metadata& metadata, const wire::Service& wire) {
  const auto annotation = rules::find(metadata.annotations, "sluice.lb/topology-keys", problems_);
  if (annotation) {
    const Problems::Step step(problems_, "metadata");
    const Problems::Step annotations(problems_, "annotations");
    const Problems::Step key(problems_, "sluice.lb/topology-keys");
    for (std::size_t begin = 0; begin <= annotation->size();) {
      const auto end = std::min(annotation->find(',', begin), annotation->size());
      topology_key(annotation->substr(begin, end - begin));
      begin = end + 1;
    }
  } else if (origin_ == Origin::manifest) {
    const Problems::Step spec(problems_, "spec");
    const Problems::Step field(problems_, "topologyKeys");
    std::ranges::for_each(wire.topology_keys, [this](auto key) { topology_key(key); });
  }
  if (!service_.topology_keys.empty() && service_.external_policy == TrafficPolicy::local) {
    problems_.add("topology keys do not go together with externalTrafficPolicy Local; the keys are ignored");
    service_.topology_keys.clear();
  }
}

void ServiceRules::selection(const wire::Metadata& metadata) {
  const auto annotation = rules::find(metadata.annotations, "sluice.lb/selection", problems_);
  const auto text = rules::trimmed(annotation.value_or(""));
  if (!annotation) {
    return;
  }
  // "maglev" is the former name.
  const bool consistent = text == "consistent" || text == "maglev";
  service_.selection = consistent ? Selection::consistent : Selection::random;
  if (!consistent && text != "random") {
    const Problems::Step step(problems_, "metadata");
    problems_.add(
        fmt::format("annotation sluice.lb/selection: {} is neither random nor consistent; taken as random",
                    quoted(text)));
  }
}

Service ServiceRules::finish(ObjectKey key, const wire::Metadata& metadata, const wire::Service& wire) {
  service_.key = std::move(key);
  sort_unique(service_.external_ips);
  sort_unique(service_.load_balancer_ips);
  service_.uid = metadata.uid.substr(0, 128);
  service_.created = unix_seconds(metadata.created);
  const auto proxy = rules::find(metadata.labels, "service.kubernetes.io/service-proxy-name", problems_);
  service_.other_proxy = proxy.has_value();
  service_.proxy_name = proxy.value_or("");
  {
    const Problems::Step spec(problems_, "spec");
    service_.type = service_type(wire.type, problems_);
    addresses(wire);
    policies(wire);
    affinity(wire);
  }
  topology(metadata, wire);
  selection(metadata);
  return std::move(service_);
}

}  // namespace lb::k8s
