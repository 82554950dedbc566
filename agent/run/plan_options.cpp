// SPDX-License-Identifier: Apache-2.0
#include "agent/run/plan_options.hpp"

#include "agent/options/families.hpp"

namespace lb::agent {

PlanOptions plan_options(const AgentOptions& options) {
  PlanOptions plan;
  plan.families = host_families("");
  plan.service_proxy_name = options.service_proxy_name;
  plan.external_ip_ranges = options.external_ips;
  plan.excluded = options.exclude;
  plan.pod_ranges = options.cluster_cidrs;
  plan.topology_labels = options.topology_labels;
  plan.max_frontends = options.service_frontends;
  plan.selection = options.selection;
  plan.consistent_tables = options.consistent_budget / options.sizes.consistent_slots;
  return plan;
}

}  // namespace lb::agent
