// SPDX-License-Identifier: Apache-2.0
// Plans and maps differ only in their types: both have frontends, a policy and two sets.
#include "agent/commands/our_frontends.hpp"

#include <map>
#include <string>
#include <utility>

#include "k8s/objects/raw_address.hpp"
#include "maps/text.hpp"

namespace lb::agent {
namespace {

struct ServicePort {
  std::string name;
  lb_policy policy{};
  std::uint32_t affinity_seconds = 0;
  EndpointSet cluster;
  EndpointSet local;
};

EmptyVerdict empty_verdict(lb_verdict verdict) {
  return verdict == LB_DROP ? EmptyVerdict::drop : EmptyVerdict::reject;
}

/// Removes an empty port name from "namespace/name:port name".
std::string without_empty_port(std::string name) {
  if (name.ends_with(':')) {
    name.pop_back();
  }
  return name;
}

ServicePort service_port(std::string name, const lb_policy& policy, std::uint32_t affinity_seconds) {
  ServicePort port{without_empty_port(std::move(name)), policy, affinity_seconds, {}, {}};
  port.cluster.verdict_if_empty = empty_verdict(policy.cluster_empty);
  port.local.verdict_if_empty = empty_verdict(policy.local_empty);
  return port;
}

void sort_sets(ServicePort& port) {
  sort_unique(port.cluster.endpoints);
  sort_unique(port.local.endpoints);
}

/// For pods and the node itself an outside address uses the cluster set, whatever its policy.
void add(ServedFrontends& to, const ServicePort& port, const FrontendId& id, lb_kind kind) {
  const auto set_of = [&port](lb_scope scope) { return scope == LB_LOCAL ? port.local : port.cluster; };
  auto& frontend = to[id];
  frontend.service = port.name;
  frontend.affinity_seconds = port.affinity_seconds;
  frontend.outside = set_of(kind == LB_CLUSTER_IP ? port.policy.internal : port.policy.external);
  frontend.inside = kind == LB_CLUSTER_IP ? frontend.outside : port.cluster;
  if (kind == LB_LOAD_BALANCER && port.policy.source_ranges == LB_YES) {
    frontend.clients = Clients::limited;
  }
}

ServedEndpoint endpoint_of(const lb_backend& backend) {
  return {k8s::address_of(backend.address), backend.port};
}

FrontendId id_of(const lb_frontend_key& key) {
  return {k8s::address_of(key.address), key.port, key.protocol};
}

void take(ServicePort& port, const lb_backend& backend) {
  if (backend.weight == 0) {
    return;
  }
  if (backend.in_cluster == LB_YES) {
    port.cluster.endpoints.push_back(endpoint_of(backend));
  }
  if (backend.in_local == LB_YES) {
    port.local.endpoints.push_back(endpoint_of(backend));
  }
}

}  // namespace

void add_frontends(ServedFrontends& to, const ServicePortPlan& plan) {
  auto port = service_port(plan.key.name, plan.policy, plan.affinity_seconds);
  for (const auto& backend : plan.backends) {
    if (backend.weight == 0) {
      continue;
    }
    if (backend.in_cluster) {
      port.cluster.endpoints.push_back({backend.address, backend.port});
    }
    if (backend.in_local) {
      port.local.endpoints.push_back({backend.address, backend.port});
    }
  }
  sort_sets(port);
  for (const auto& frontend : plan.frontends) {
    add(to, port, {frontend.address, frontend.port, plan.key.protocol}, frontend.kind);
  }
}

ServedFrontends frontends_of(const std::vector<ServiceView>& services,
                             const std::vector<BackendView>& backends) {
  std::map<std::uint32_t, ServicePort> ports;
  for (const auto& view : services) {
    ports.emplace(view.number, service_port(std::string(maps::stored_text(view.name.service)),
                                            view.service.policy, view.service.affinity_seconds));
  }
  for (const auto& view : backends) {
    if (const auto port = ports.find(view.backend.service); port != ports.end()) {
      take(port->second, view.backend);
    }
  }
  ServedFrontends all;
  for (const auto& view : services) {
    auto& port = ports.at(view.number);
    sort_sets(port);
    for (const auto& [key, frontend] : view.frontends) {
      add(all, port, id_of(key), frontend.kind);
    }
  }
  return all;
}

}  // namespace lb::agent
