// SPDX-License-Identifier: Apache-2.0
// The options that planning uses.
#pragma once

#include "agent/options/config.hpp"
#include "agent/plan/plan.hpp"

namespace lb::agent {

/// Checks which families the kernel of this host supports.
[[nodiscard]] PlanOptions plan_options(const AgentOptions& options);

}  // namespace lb::agent
