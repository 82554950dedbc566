// SPDX-License-Identifier: Apache-2.0
// Checks this machine like a start, and what else an operator should know before one. Changes nothing.
#pragma once

#include <vector>

#include "agent/base/findings.hpp"
#include "agent/options/config.hpp"

namespace lb::agent {

/// One finding for each feature that the agent needs or can use. Beside a running agent on the same pins it
/// checks as for that agent's replacement.
[[nodiscard]] std::vector<Finding> check_machine(const AgentOptions& options);

}  // namespace lb::agent
