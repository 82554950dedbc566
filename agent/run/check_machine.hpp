// Checks this machine as a start would, and what else an operator should know before one. Changes nothing.
#pragma once

#include <vector>

#include "agent/base/findings.hpp"
#include "agent/options/config.hpp"

namespace lb::agent {

/// One finding for each thing that the agent needs or can use. Beside a running agent on the same pins it
/// looks as for the one that shall replace it.
[[nodiscard]] std::vector<Finding> check_machine(const AgentOptions& options);

}  // namespace lb::agent
