// SPDX-License-Identifier: Apache-2.0
// Computes the desired contents of the maps for one service.
#include "agent/plan/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>

#include "agent/base/yes_no.hpp"
#include "agent/plan/endpoints.hpp"
#include "agent/plan/frontends.hpp"
#include "k8s/objects/raw_address.hpp"

namespace lb::agent {
namespace {

lb_family family_of(const k8s::Address& address) {
  return address.family() == k8s::Family::ipv4 ? LB_IPV4 : LB_IPV6;
}

k8s::Address zero_of(lb_family family) {
  return family == LB_IPV4 ? k8s::address_of(std::array<std::uint8_t, 4>{}) : k8s::Address();
}

lb_scope scope_of(k8s::TrafficPolicy policy) {
  return policy == k8s::TrafficPolicy::local ? LB_LOCAL : LB_CLUSTER;
}

/// Whether a proxy programs the service at all (SEM-1, SEM-10).
bool is_ours(const k8s::Service& service, const PlanOptions& options) {
  const bool named = options.service_proxy_name.empty() ? !service.other_proxy
                                                        : service.proxy_name == options.service_proxy_name;
  return named && !service.headless && service.type != k8s::ServiceType::external_name;
}

std::vector<k8s::Address> of_family(const std::vector<k8s::Address>& addresses, lb_family family) {
  std::vector<k8s::Address> chosen;
  std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(chosen),
               [&](const k8s::Address& address) { return family_of(address) == family; });
  return chosen;
}

bool has(const std::vector<k8s::Address>& sorted, const k8s::Address& address) {
  return std::binary_search(sorted.begin(), sorted.end(), address);
}

bool has_some_of(const std::vector<k8s::Address>& addresses, lb_family family) {
  return std::ranges::any_of(addresses,
                             [family](const auto& address) { return family_of(address) == family; });
}

/// Whether the ranges name an address of this node explicitly: a floating address that the node holds at the
/// moment (keepalived, kube-vip) is in the operator's range; the node's own must be named by itself.
bool name_own(const std::vector<k8s::Prefix>& ranges, const k8s::Address& address, const NodeView& node) {
  constexpr std::uint8_t one_address = 128;
  const int any_address = family_of(address) == LB_IPV4 ? 96 : 0;
  const bool is_in_object = std::ranges::find(node.object_addresses, address) != node.object_addresses.end();
  return std::ranges::any_of(ranges, [&](const auto& range) {
    return range.contains(address) &&
           (is_in_object ? range.length == one_address : range.length > any_address);
  });
}

/// The reason why neither an external IP nor a load-balancer address may be programmed; nullptr if it may. A
/// broadcast address is no host's, so sockets that send to it do not ask for a service (REL-121).
const char* refusal_of_any(const k8s::Address& address, const NodeView& node) {
  return has(node.broadcasts, address) ? "the broadcast address of a subnet" : nullptr;
}

/// The reason why an external IP must not be programmed; nullptr if it may (REL-51).
const char* refusal(const k8s::Address& address, const NodeView& node, const PlanOptions& options) {
  const auto& ranges = options.external_ip_ranges;
  if (ranges && std::none_of(ranges->begin(), ranges->end(),
                             [&](const auto& range) { return range.contains(address); })) {
    return "in no range that is allowed";
  }
  if (const char* const why = refusal_of_any(address, node)) {
    return why;
  }
  if (!has(node.addresses, address)) {
    return nullptr;
  }
  return ranges && name_own(*ranges, address, node)
             ? nullptr
             : "an address of this node that --external-ips does not name";
}

/// A Service with an API server's address and port would get every request to it, including the agent's
/// (REL-51).
bool is_api_server(const FrontendPlan& frontend, lb_protocol protocol, const NodeView& node) {
  return protocol == LB_TCP && frontend.kind != LB_CLUSTER_IP &&
         std::ranges::binary_search(node.api_servers, ListeningAddress{frontend.address, frontend.port});
}

bool is_excluded(const k8s::Address& address, const PlanOptions& options) {
  return std::ranges::any_of(options.excluded, [&](const auto& range) { return range.contains(address); });
}

/// The served addresses of a family, sorted: those that `--exclude` does not contain.
std::vector<k8s::Address> served(const std::vector<k8s::Address>& addresses, lb_family family,
                                 const PlanOptions& options) {
  auto chosen = of_family(addresses, family);
  if (!options.excluded.empty()) {
    std::erase_if(chosen, [&](const auto& address) { return is_excluded(address, options); });
  }
  if (!std::ranges::is_sorted(chosen)) {
    std::ranges::sort(chosen);
  }
  return chosen;
}

/// Sorts by the port's part of the service port key.
std::vector<const k8s::ServicePort*> in_order(const std::vector<k8s::ServicePort>& ports) {
  std::vector<const k8s::ServicePort*> sorted;
  sorted.reserve(ports.size());
  for (const auto& port : ports) {
    sorted.push_back(&port);
  }
  // Of equal keys the first in the list comes first.
  std::ranges::sort(sorted, [](const auto* left, const auto* right) {
    return std::tie(left->name, left->protocol, left) < std::tie(right->name, right->protocol, right);
  });
  return sorted;
}

bool same_key(const k8s::ServicePort* left, const k8s::ServicePort* right) {
  return left->name == right->name && left->protocol == right->protocol;
}

bool lie_in(const std::vector<k8s::Prefix>& ranges, const std::vector<k8s::Address>& addresses) {
  return std::ranges::any_of(ranges, [&](const k8s::Prefix& range) {
    return std::ranges::any_of(addresses, [&](const auto& address) { return range.contains(address); });
  });
}

/// Items of one kind that are reported in one message: the first of them, and the number of the others.
class Tally {
 public:
  /// `name` is called only for the first item.
  template <class Name>
  void add(Name name) {
    if (count_++ == 0) {
      first_ = name();
    }
  }
  [[nodiscard]] bool any() const noexcept { return count_ > 0; }
  /// "192.0.2.1 is", "192.0.2.1 and 2 more are".
  [[nodiscard]] std::string is() const {
    return count_ == 1 ? first_ + " is" : fmt::format("{} and {} more are", first_, count_ - 1);
  }

 private:
  std::string first_;
  std::size_t count_ = 0;
};

/// The common parts of a family's service ports, made once for all of them.
struct FamilyParts {
  lb_family family = LB_IPV4;
  std::vector<k8s::Address> cluster_ips;  ///< this and the next two: only served addresses, sorted
  std::vector<k8s::Address> load_balancer_ips;
  std::vector<k8s::Address> external_ips;
  bool reached_from_outside = false;  ///< by any address, whether or not it is served
  std::vector<k8s::Prefix> source_ranges;
  std::size_t first_spec = 0;  ///< index of its first spec
};

/// A range of 0 bits allows all clients of its family; ranges of only the other family restrict none. An
/// allowed node may use a load-balancer address as its source if one of its devices has it (SEM-37).
std::vector<k8s::Prefix> ranges_of(const k8s::Service& service, lb_family family, const NodeView& node) {
  const auto load_balancer_ips = of_family(service.load_balancer_ips, family);
  if (load_balancer_ips.empty()) {
    return {};
  }
  std::vector<k8s::Prefix> ranges;
  const int any_address = family == LB_IPV4 ? 96 : 0;
  for (const auto& range : service.source_ranges) {
    if (family_of(range.address) != family) {
      continue;
    }
    if (range.length == any_address) {
      return {};
    }
    ranges.push_back(range);
  }
  if (lie_in(ranges, of_family(node.primary, family))) {
    constexpr std::uint8_t one_address = 128;
    for (const auto& address : load_balancer_ips) {
      ranges.push_back({address, one_address});
    }
  }
  std::ranges::sort(ranges);
  ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
  return ranges;
}

/// Makes the specs of one service: first all service ports, then their frontends, from ClusterIPs outwards,
/// address by address. If an object exceeds the limit of one Service, this order decides what is served.
/// Costs no more than the served frontends, and a check of each address, range and port.
class Framer {
 public:
  Framer(const k8s::Service& service, const NodeView& node, const PlanOptions& options)
      : service_(service), node_(node), options_(options), left_(options.max_frontends) {}

  ServiceSpec make() {
    choose_external_ips();
    choose_load_balancer_ips();
    if (is_ours(service_, options_)) {
      choose_ports();
      for (const auto family : options_.families) {
        add_family(family);
      }
      bound_source_ranges();
      for (const auto& parts : families_) {
        add_to_ports(parts, parts.cluster_ips, LB_CLUSTER_IP);
      }
      add_node_ports();
      for (const auto& parts : families_) {
        add_to_ports(parts, parts.load_balancer_ips, LB_LOAD_BALANCER);
      }
      for (const auto& parts : families_) {
        add_to_ports(parts, parts.external_ips, LB_EXTERNAL_IP);
      }
      drop_ports_without_room();
      merge_families();
    }
    for (auto& port : spec_.ports) {
      std::ranges::sort(port.plan.frontends);
    }
    report();
    std::ranges::sort(spec_.complaints);
    return std::move(spec_);
  }

 private:
  void choose_external_ips() {
    external_ips_ = allowed(service_.external_ips, "external IP",
                            [this](const auto& address) { return refusal(address, node_, options_); });
  }

  void choose_load_balancer_ips() {
    load_balancer_ips_ = allowed(service_.load_balancer_ips, "load-balancer IP",
                                 [this](const auto& address) { return refusal_of_any(address, node_); });
  }

  /// Those without a reason against them; complains of the others. An object may have 70,000 addresses.
  template <class Refusal>
  std::vector<k8s::Address> allowed(const std::vector<k8s::Address>& addresses, std::string_view kind,
                                    Refusal refusal_of) {
    std::vector<k8s::Address> chosen;
    std::map<std::string_view, Tally> refused;
    for (const auto& address : addresses) {
      if (const char* const why = refusal_of(address)) {
        refused[why].add([&] { return address.text(); });
      } else {
        chosen.push_back(address);
      }
    }
    for (const auto& [why, which] : refused) {
      complain(fmt::format("{} {} refused: it is {}", kind, which.is(), why));
    }
    return chosen;
  }

  /// A family without its own ClusterIP has no frontends, neither node ports nor load-balancer IPs (SEM-9).
  void add_family(lb_family family) {
    FamilyParts parts;
    if (!has_some_of(service_.cluster_ips, family)) {
      return;
    }
    parts.family = family;
    parts.cluster_ips = served(service_.cluster_ips, family, options_);
    leave_to_node(parts.cluster_ips);
    parts.load_balancer_ips = served(load_balancer_ips_, family, options_);
    parts.external_ips = served(external_ips_, family, options_);
    // Even refused external IPs make a service externally accessible (SEM-83).
    parts.reached_from_outside =
        has_some_of(service_.load_balancer_ips, family) || has_some_of(service_.external_ips, family);
    parts.source_ranges = ranges_of(service_, family, node_);
    parts.first_spec = spec_.ports.size();
    families_.push_back(std::move(parts));
    for (const auto* port : sorted_ports_) {
      add_port(*port, families_.back());
    }
  }

  /// A ClusterIP that a cache on this node uses is not served (NodeLocal DNS). Reported, because an address
  /// that another proxy left behind looks the same.
  void leave_to_node(std::vector<k8s::Address>& cluster_ips) {
    std::erase_if(cluster_ips, [this](const auto& address) {
      const bool own = has(node_.addresses, address);
      if (own) {
        left_to_node_.add([&] { return address.text(); });
      }
      return own;
    });
  }

  /// Of several ports with one key the first counts.
  void choose_ports() {
    for (const auto* port : in_order(service_.ports)) {
      if (!sorted_ports_.empty() && same_key(sorted_ports_.back(), port)) {
        stated_twice_.add([&] { return key_of(*port, LB_IPV4).name; });
      } else {
        sorted_ports_.push_back(port);
      }
    }
  }

  void add_port(const k8s::ServicePort& port, const FamilyParts& parts) {
    if (spec_.ports.size() == options_.max_frontends) {
      return without_room_.add([&] { return key_of(port, parts.family).name; });
    }
    PortSpec spec;
    spec.port_name = port.name;
    spec.plan.key = key_of(port, parts.family);
    set_policy(spec, port, parts);
    spec_.ports.push_back(std::move(spec));
    ports_.push_back(&port);
  }

  /// Merges the families' specs; no key is in both.
  void merge_families() {
    std::ranges::sort(spec_.ports, {}, [](const PortSpec& port) -> const auto& { return port.plan.key; });
  }

  [[nodiscard]] ServicePortKey key_of(const k8s::ServicePort& port, lb_family family) const {
    auto name = service_.key.text();
    if (!port.name.empty()) {
      name += ":" + port.name;
    }
    return {std::move(name), static_cast<lb_protocol>(port.protocol), family};
  }

  [[nodiscard]] std::size_t end_of(const FamilyParts& parts) const {
    const std::size_t next = static_cast<std::size_t>(&parts - families_.data()) + 1;
    return next < families_.size() ? families_[next].first_spec : spec_.ports.size();
  }

  /// All ports of one address come before the next address, which works completely or not at all.
  void add_to_ports(const FamilyParts& parts, const std::vector<k8s::Address>& addresses, lb_kind kind) {
    const std::size_t end = end_of(parts);
    for (const auto& address : addresses) {
      if (is_of_stronger_kind(parts, address, kind)) {
        continue;
      }
      for (std::size_t at = parts.first_spec; at < end; ++at) {
        if (left_ == 0) {
          return beyond(addresses, address, end - parts.first_spec);
        }
        add_frontend(spec_.ports[at].plan, {address, ports_[at]->port, kind});
      }
    }
  }

  void beyond(const std::vector<k8s::Address>& addresses, const k8s::Address& first, std::size_t ports) {
    if (first_beyond_.empty()) {
      first_beyond_ = first.text();
    }
    const auto at = static_cast<std::size_t>(std::ranges::find(addresses, first) - addresses.begin());
    beyond_ += (addresses.size() - at) * ports;
  }

  /// A service may claim one address as two kinds: the stronger kind, which comes first, serves it.
  [[nodiscard]] static bool is_of_stronger_kind(const FamilyParts& parts, const k8s::Address& address,
                                                lb_kind kind) {
    return kind != LB_CLUSTER_IP && (has(parts.cluster_ips, address) ||
                                     (kind == LB_EXTERNAL_IP && has(parts.load_balancer_ips, address)));
  }

  void add_frontend(ServicePortPlan& plan, const FrontendPlan& added) {
    if (is_api_server(added, plan.key.protocol, node_)) {
      return api_servers_[{added.kind, added.port}].add([&] { return added.address.text(); });
    }
    plan.frontends.push_back(added);
    --left_;
  }

  void add_node_ports() {
    for (std::size_t at = 0; at < spec_.ports.size() && left_ > 0; ++at) {
      auto& plan = spec_.ports[at].plan;
      if (ports_[at]->node_port == 0) {
        continue;
      }
      plan.frontends.push_back({zero_of(plan.key.family), ports_[at]->node_port, LB_NODE_PORT});
      --left_;
    }
  }

  /// Each service port has its own copy of the ranges. Clients in ranges beyond the limit are rejected: a
  /// restricted service must not become open because it has too many ranges.
  void bound_source_ranges() {
    for (auto& parts : families_) {
      const std::size_t ports = end_of(parts) - parts.first_spec;
      if (ports == 0 || parts.source_ranges.empty()) {
        continue;
      }
      const auto max_ranges = std::max<std::size_t>(options_.max_frontends / ports, 1);
      if (parts.source_ranges.size() > max_ranges) {
        complain_over_limit(
            fmt::format("has {} source ranges for each of {} service ports: those after {} are not applied "
                        "and their clients are denied, because a Service may have {} "
                        "(--max-service-frontends)",
                        parts.source_ranges.size(), ports, parts.source_ranges[max_ranges - 1].text(),
                        options_.max_frontends));
        parts.source_ranges.resize(max_ranges);
      }
      for (std::size_t at = parts.first_spec; at < parts.first_spec + ports; ++at) {
        spec_.ports[at].plan.source_ranges = parts.source_ranges;
      }
    }
  }

  /// Drops service ports without a frontend, which would waste a number and backends.
  void drop_ports_without_room() {
    if (left_ > 0) {
      return;
    }
    std::erase_if(spec_.ports, [this](const PortSpec& port) {
      if (!port.plan.frontends.empty()) {
        return false;
      }
      without_room_.add([&] { return port.plan.key.name; });
      return true;
    });
  }

  void set_policy(PortSpec& spec, const k8s::ServicePort& port, const FamilyParts& parts) const {
    ServicePortPlan& plan = spec.plan;
    const bool accessible = port.node_port != 0 || parts.reached_from_outside;  // SEM-20
    plan.policy.internal = scope_of(service_.internal_policy);
    plan.policy.external = accessible ? scope_of(service_.external_policy) : LB_CLUSTER;
    plan.policy.cluster_empty = LB_REJECT;
    const bool said = service_.selection != k8s::Selection::unsaid;
    const auto selection = said ? service_.selection : options_.selection;
    plan.policy.selection = selection == k8s::Selection::consistent ? LB_CONSISTENT : LB_RANDOM;
    spec.uses[LB_CLUSTER] = plan.policy.internal == LB_CLUSTER || accessible;
    spec.uses[LB_LOCAL] = plan.policy.internal == LB_LOCAL || plan.policy.external == LB_LOCAL;
    spec.topology = service_.topology_keys.empty() ? TopologyMode::hints : TopologyMode::keys;
    plan.affinity_seconds = service_.affinity_seconds;
    // Source ranges apply only to load-balancer IPs; packet_path is for service ports that the socket hooks
    // must not handle (docs/semantics.md, choices E and F).
    const bool restricted = !parts.source_ranges.empty();
    plan.policy.source_ranges = yes_if(restricted);
    plan.policy.packet_path =
        yes_if(plan.key.protocol == LB_SCTP || (restricted && plan.affinity_seconds != 0));
  }

  void report() {
    if (!service_.refused_topology_keys.empty()) {
      complain(fmt::format("topology keys {} are skipped: --topology-labels does not allow them",
                           fmt::join(service_.refused_topology_keys, ", ")));
    }
    for (const auto& [where, which] : api_servers_) {
      complain(fmt::format("{} {} refused on port {}: an API server listens there",
                           where.first == LB_EXTERNAL_IP ? "external IP" : "load-balancer IP", which.is(),
                           where.second));
    }
    if (left_to_node_.any()) {
      complain(fmt::format("ClusterIP {} left to this node: one of its devices has that address",
                           left_to_node_.is()));
    }
    if (stated_twice_.any()) {
      complain(fmt::format("port {} stated twice: the first one counts", stated_twice_.is()));
    }
    if (without_room_.any()) {
      complain_over_limit(
          fmt::format("service port {} not served: a Service may have {} frontends (--max-service-frontends)",
                      without_room_.is(), options_.max_frontends));
    }
    if (beyond_ > 0) {
      complain_over_limit(
          fmt::format("asks for {} frontends (addresses times ports) more than the {} that a Service may "
                      "have: {} and the addresses after it are not served; raise --max-service-frontends",
                      beyond_, options_.max_frontends, first_beyond_));
    }
  }

  void complain(std::string reason) { spec_.complaints.push_back(std::move(reason)); }

  void complain_over_limit(std::string reason) {
    spec_.over_limit.push_back(reason);
    complain(std::move(reason));
  }

  const k8s::Service& service_;
  const NodeView& node_;
  const PlanOptions& options_;
  std::size_t left_;                             ///< frontends that the Service may still have
  std::vector<k8s::Address> external_ips_;       ///< those that are not refused
  std::vector<k8s::Address> load_balancer_ips_;  ///< the same
  std::vector<FamilyParts> families_;
  std::vector<const k8s::ServicePort*> sorted_ports_;
  std::vector<const k8s::ServicePort*> ports_;  ///< parallel to spec_.ports, until those are merged
  std::map<std::pair<lb_kind, std::uint16_t>, Tally> api_servers_;
  Tally left_to_node_;
  Tally stated_twice_;
  Tally without_room_;
  std::string first_beyond_;
  std::size_t beyond_ = 0;
  ServiceSpec spec_;
};

Sets sets_of(const PortSpec& spec, const EndpointCounts& counts) {
  Sets sets;
  if (spec.uses[LB_CLUSTER]) {
    sets.cluster = cluster_set(counts, spec.topology);
  }
  if (spec.uses[LB_LOCAL]) {
    sets.local = local_set(counts);
  }
  return sets;
}

}  // namespace

bool ServicePortPlan::operator==(const ServicePortPlan& other) const {
  return key == other.key && frontends == other.frontends && affinity_seconds == other.affinity_seconds &&
         std::memcmp(&policy, &other.policy, sizeof(policy)) == 0 && source_ranges == other.source_ranges &&
         backends == other.backends;
}

std::vector<k8s::Address> all_addresses(const k8s::Node& node) {
  auto all = node.internal_ips;
  all.insert(all.end(), node.external_ips.begin(), node.external_ips.end());
  return all;
}

std::vector<k8s::Address> primary_addresses(const k8s::Node& node) {
  std::vector<k8s::Address> primary;
  for (const auto family : {k8s::Family::ipv4, k8s::Family::ipv6}) {
    const auto of_family = [family](const k8s::Address& address) { return address.family() == family; };
    for (const auto* list : {&node.internal_ips, &node.external_ips}) {
      if (const auto found = std::ranges::find_if(*list, of_family); found != list->end()) {
        primary.push_back(*found);
        break;
      }
    }
  }
  return primary;
}

ServiceSpec spec(const k8s::Service& service, const NodeView& node, const PlanOptions& options) {
  return Framer(service, node, options).make();
}

ServicePortPlan complete(const PortSpec& spec, CandidateList& candidates) {
  ServicePortPlan plan = spec.plan;
  const EndpointCounts counts = candidates.counts();
  plan.backends = candidates.backends(sets_of(spec, counts));
  plan.policy.local_empty = spec.uses[LB_LOCAL] && counts.any() ? LB_DROP : LB_REJECT;
  return plan;
}

}  // namespace lb::agent
