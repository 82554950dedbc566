// SPDX-License-Identifier: Apache-2.0
// The frontends that Sluice serves, or would serve, in the types for comparison with kube-proxy's rules.
// Pure.
#pragma once

#include <vector>

#include "agent/commands/view.hpp"
#include "agent/kube_proxy/served_frontends.hpp"
#include "agent/plan/plan.hpp"

namespace lb::agent {

/// Adds the frontends of a plan.
void add_frontends(ServedFrontends& to, const ServicePortPlan& plan);

/// Frontends from the maps: `backends` are those of `services`, with or without those whose endpoints are
/// gone.
[[nodiscard]] ServedFrontends frontends_of(const std::vector<ServiceView>& services,
                                           const std::vector<BackendView>& backends);

}  // namespace lb::agent
