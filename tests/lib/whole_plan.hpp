// SPDX-License-Identifier: Apache-2.0
// Makes a Service's plan from scratch, in one step: every incremental plan must equal it.
#pragma once

#include <span>
#include <vector>

#include "agent/plan/plan.hpp"
#include "k8s/objects/model.hpp"

namespace lb::test {

/// `slices` are those of this service, in any order.
[[nodiscard]] std::vector<agent::ServicePortPlan> whole_plan(const k8s::Service& service,
                                                             std::span<const k8s::EndpointSlice> slices,
                                                             const agent::NodeView& node,
                                                             const agent::PlanOptions& options);

}  // namespace lb::test
