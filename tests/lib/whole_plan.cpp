// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/whole_plan.hpp"

#include "agent/plan/endpoints.hpp"
#include "agent/plan/frontends.hpp"

namespace lb::test {

std::vector<agent::ServicePortPlan> whole_plan(const k8s::Service& service,
                                               std::span<const k8s::EndpointSlice> slices,
                                               const agent::NodeView& node,
                                               const agent::PlanOptions& options) {
  const std::vector<agent::CompactSlice> compact(slices.begin(), slices.end());
  const auto derived = agent::spec(service, node, options);
  agent::Frontends frontends;
  agent::WorkBudget work(agent::WorkBudget::unlimited);
  frontends.claim(service.key.text(), service.created, derived.ports, work);
  const agent::Viewpoint view{node, service.topology_keys, &frontends, service.key.text()};
  std::vector<agent::ServicePortPlan> plans;
  for (const auto& port : derived.ports) {
    std::vector<agent::Candidate> fresh;
    for (const auto& slice : compact) {
      static_cast<void>(slice.append(port.plan.key, port.port_name, view, fresh));
    }
    agent::CandidateList candidates;
    candidates.update({}, fresh);
    plans.push_back(agent::complete(port, candidates));
  }
  return plans;
}

}  // namespace lb::test
