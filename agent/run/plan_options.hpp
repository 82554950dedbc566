// The options that planning uses.
#pragma once

#include "agent/options/config.hpp"
#include "agent/plan/plan.hpp"

namespace lb::agent {

/// Reads from the kernel which families this host has.
[[nodiscard]] PlanOptions plan_options(const AgentOptions& options);

}  // namespace lb::agent
