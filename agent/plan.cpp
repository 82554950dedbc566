// What the maps shall hold for one service, decided from objects and the node alone.
#include "agent/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "agent/endpoints.hpp"
#include "agent/frontends.hpp"

namespace lb::agent {
namespace {

lb_family family_of(const k8s::Address& address) {
  return address.family() == k8s::Family::ipv4 ? LB_IPV4 : LB_IPV6;
}

k8s::Address zero_of(lb_family family) {
  k8s::Address zero;
  if (family == LB_IPV4) zero.bytes[10] = zero.bytes[11] = 0xff;
  return zero;
}

lb_scope scope_of(k8s::TrafficPolicy policy) {
  return policy == k8s::TrafficPolicy::local ? LB_LOCAL : LB_CLUSTER;
}

lb_bool yes_if(bool condition) { return condition ? LB_YES : LB_NO; }

/// SEM-1, SEM-10: what a proxy programs at all.
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

/// Why an external IP may not be programmed; empty: it may (REL-51).
std::string refusal(const k8s::Address& address, const NodeView& node, const PlanOptions& options) {
  const auto& ranges = options.external_ip_ranges;
  if (ranges && std::none_of(ranges->begin(), ranges->end(),
                             [&](const auto& range) { return range.contains(address); })) {
    return fmt::format("external IP {} is refused: it is in no range that is allowed", address.text());
  }
  if (options.external_ip_on_node == OwnAddress::refuse &&
      std::find(node.addresses.begin(), node.addresses.end(), address) != node.addresses.end()) {
    return fmt::format("external IP {} is refused: it is an address of this node", address.text());
  }
  return {};
}

/// Whoever takes an API server's place takes every request to it, and the agent's own (REL-51).
bool is_api_server(const FrontendPlan& frontend, lb_protocol protocol, const NodeView& node) {
  return protocol == LB_TCP && frontend.kind != LB_CLUSTER_IP &&
         std::ranges::binary_search(node.api_servers, ListeningPlace{frontend.address, frontend.port});
}

bool has(const std::vector<k8s::Address>& sorted, const k8s::Address& address) {
  return std::binary_search(sorted.begin(), sorted.end(), address);
}

/// Left alone: what `--exclude` names, and a ClusterIP that a cache on this node has taken (NodeLocal DNS).
bool is_left_alone(const FrontendPlan& frontend, const NodeView& node, const PlanOptions& options) {
  return (frontend.kind == LB_CLUSTER_IP && has(node.addresses, frontend.address)) ||
         std::any_of(options.excluded.begin(), options.excluded.end(),
                     [&](const auto& range) { return range.contains(frontend.address); });
}

bool lie_in(const std::vector<k8s::Prefix>& ranges, const std::vector<k8s::Address>& addresses) {
  return std::ranges::any_of(ranges, [&](const k8s::Prefix& range) {
    return std::ranges::any_of(addresses, [&](const auto& address) { return range.contains(address); });
  });
}

/// A range of 0 bits lets everybody of its family in; ranges of the other family alone restrict nobody. A
/// node that is let in may have a load-balancer address as its source where that is on one of its devices
/// (SEM-37).
std::vector<k8s::Prefix> ranges_of(const k8s::Service& service, lb_family family, const NodeView& node) {
  std::vector<k8s::Prefix> ranges;
  const int everybody = family == LB_IPV4 ? 96 : 0;
  for (const auto& range : service.source_ranges) {
    if (family_of(range.address) != family) continue;
    if (range.length == everybody) return {};
    ranges.push_back(range);
  }
  if (lie_in(ranges, of_family(node.primary, family))) {
    constexpr std::uint8_t one_address = 128;
    for (const auto& address : of_family(service.load_balancer_ips, family)) {
      ranges.push_back({address, one_address});
    }
  }
  std::ranges::sort(ranges);
  ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
  return ranges;
}

/// Makes the frames of one service, family by family.
class Framer {
 public:
  Framer(const k8s::Service& service, const NodeView& node, const PlanOptions& options)
      : service_(service), node_(node), options_(options), ours_(is_ours(service, options)) {
    for (const auto& address : service.external_ips) {
      auto why_not = refusal(address, node, options);
      if (why_not.empty()) {
        external_ips_.push_back(address);
      } else {
        frame_.complaints.push_back(std::move(why_not));
      }
    }
  }

  ServiceFrame make() {
    if (ours_) {
      for (const auto family : options_.families) add_family(family);
    }
    auto& ports = frame_.ports;
    std::sort(ports.begin(), ports.end(),
              [](const auto& a, const auto& b) { return a.plan.key < b.plan.key; });
    auto& complaints = frame_.complaints;
    std::sort(complaints.begin(), complaints.end());
    complaints.erase(std::unique(complaints.begin(), complaints.end()), complaints.end());
    return std::move(frame_);
  }

 private:
  /// Without a ClusterIP of its own a family has nothing, neither node ports nor load-balancer IPs (SEM-9).
  void add_family(lb_family family) {
    const auto cluster_ips = of_family(service_.cluster_ips, family);
    if (cluster_ips.empty()) return;
    for (const auto& port : service_.ports) add_port(port, family, cluster_ips);
  }

  void add_port(const k8s::ServicePort& port, lb_family family,
                const std::vector<k8s::Address>& cluster_ips) {
    PortFrame frame;
    frame.port_name = port.name;
    frame.plan.key = key_of(port, family);
    if (is_known(frame.plan.key)) {
      complain(fmt::format("port {} is stated twice: the first one counts", frame.plan.key.name));
      return;
    }
    add_frontends(frame.plan, port, cluster_ips);
    set_policy(frame, port);
    frame_.ports.push_back(std::move(frame));
  }

  [[nodiscard]] ServicePortKey key_of(const k8s::ServicePort& port, lb_family family) const {
    auto name = service_.key.text();
    if (!port.name.empty()) name += ":" + port.name;
    return {std::move(name), static_cast<lb_protocol>(port.protocol), family};
  }

  [[nodiscard]] bool is_known(const ServicePortKey& key) const {
    const auto& ports = frame_.ports;
    return std::any_of(ports.begin(), ports.end(), [&](const auto& frame) { return frame.plan.key == key; });
  }

  void add_frontends(ServicePortPlan& plan, const k8s::ServicePort& port,
                     const std::vector<k8s::Address>& cluster_ips) {
    const auto add = [&](const std::vector<k8s::Address>& addresses, lb_kind kind) {
      for (const auto& address : addresses) add_frontend(plan, {address, port.port, kind});
    };
    add(cluster_ips, LB_CLUSTER_IP);
    add(of_family(service_.load_balancer_ips, plan.key.family), LB_LOAD_BALANCER);
    add(of_family(external_ips_, plan.key.family), LB_EXTERNAL_IP);
    if (port.node_port != 0)
      plan.frontends.push_back({zero_of(plan.key.family), port.node_port, LB_NODE_PORT});
    std::sort(plan.frontends.begin(), plan.frontends.end());
  }

  /// A service may claim one address twice, as two kinds: the stronger kind, which comes first, serves it.
  void add_frontend(ServicePortPlan& plan, const FrontendPlan& added) {
    if (is_api_server(added, plan.key.protocol, node_)) {
      complain(fmt::format("{} {} is refused on port {}: an API server listens there",
                           added.kind == LB_EXTERNAL_IP ? "external IP" : "load-balancer IP",
                           added.address.text(), added.port));
      return;
    }
    auto& frontends = plan.frontends;
    const bool is_there = std::any_of(frontends.begin(), frontends.end(), [&](const auto& frontend) {
      return frontend.address == added.address && frontend.port == added.port;
    });
    if (!is_there && !is_left_alone(added, node_, options_)) frontends.push_back(added);
  }

  /// SEM-20. External IPs that are refused make a service externally accessible all the same (SEM-83).
  [[nodiscard]] bool externally_accessible(const k8s::ServicePort& port, lb_family family) const {
    return port.node_port != 0 || !of_family(service_.load_balancer_ips, family).empty() ||
           !of_family(service_.external_ips, family).empty();
  }

  void set_policy(PortFrame& frame, const k8s::ServicePort& port) const {
    ServicePortPlan& plan = frame.plan;
    const bool accessible = externally_accessible(port, plan.key.family);
    plan.policy.internal = scope_of(service_.internal_policy);
    plan.policy.external = accessible ? scope_of(service_.external_policy) : LB_CLUSTER;
    plan.policy.cluster_empty = LB_REJECT;
    plan.policy.selection = service_.selection == k8s::Selection::maglev ? LB_MAGLEV : LB_RANDOM;
    frame.uses[LB_CLUSTER] = plan.policy.internal == LB_CLUSTER || accessible;
    frame.uses[LB_LOCAL] = plan.policy.internal == LB_LOCAL || plan.policy.external == LB_LOCAL;
    frame.topology = service_.topology_keys.empty() ? TopologyMode::hints : TopologyMode::keys;
    set_paths(plan);
  }

  /// Only for load-balancer IPs; and what the socket hooks must leave alone ("Our choices" E and F).
  void set_paths(ServicePortPlan& plan) const {
    plan.affinity_seconds = service_.affinity_seconds;
    if (!of_family(service_.load_balancer_ips, plan.key.family).empty()) {
      plan.source_ranges = ranges_of(service_, plan.key.family, node_);
    }
    const bool restricted = !plan.source_ranges.empty();
    plan.policy.source_ranges = yes_if(restricted);
    plan.policy.packet_path =
        yes_if(plan.key.protocol == LB_SCTP || (restricted && plan.affinity_seconds != 0));
  }

  void complain(std::string reason) { frame_.complaints.push_back(std::move(reason)); }

  const k8s::Service& service_;
  const NodeView& node_;
  const PlanOptions& options_;
  bool ours_;
  std::vector<k8s::Address> external_ips_;
  ServiceFrame frame_;
};

Sets sets_of(const PortFrame& frame, const Census& census) {
  Sets sets;
  if (frame.uses[LB_CLUSTER]) sets.cluster = cluster_set(census, frame.topology);
  if (frame.uses[LB_LOCAL]) sets.local = local_set(census);
  return sets;
}

}  // namespace

bool ServicePortPlan::operator==(const ServicePortPlan& other) const {
  return key == other.key && frontends == other.frontends && affinity_seconds == other.affinity_seconds &&
         std::memcmp(&policy, &other.policy, sizeof(policy)) == 0 && source_ranges == other.source_ranges &&
         backends == other.backends;
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

ServiceFrame frame(const k8s::Service& service, const NodeView& node, const PlanOptions& options) {
  return Framer(service, node, options).make();
}

ServicePortPlan complete(const PortFrame& frame, CandidateList& candidates) {
  ServicePortPlan plan = frame.plan;
  const Census census = candidates.census();
  plan.backends = candidates.backends(sets_of(frame, census));
  plan.policy.local_empty = frame.uses[LB_LOCAL] && census.any() ? LB_DROP : LB_REJECT;
  return plan;
}

std::vector<ServicePortPlan> plan(const k8s::Service& service, std::span<const k8s::EndpointSlice> slices,
                                  const NodeView& node, const PlanOptions& options) {
  const std::vector<CompactSlice> compact(slices.begin(), slices.end());
  const auto framed = frame(service, node, options);
  Frontends frontends;
  frontends.claim(service.key.text(), service.created, framed.ports);
  const Viewpoint view{node, service.topology_keys, &frontends, service.key.text()};
  std::vector<ServicePortPlan> plans;
  for (const auto& port : framed.ports) {
    std::vector<Candidate> fresh;
    for (const auto& slice : compact) {
      static_cast<void>(slice.append(port.plan.key, port.port_name, view, fresh));
    }
    CandidateList candidates;
    candidates.update({}, fresh);
    plans.push_back(complete(port, candidates));
  }
  return plans;
}

}  // namespace lb::agent
