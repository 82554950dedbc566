// SPDX-License-Identifier: Apache-2.0
// Runs the agent as a process, until a signal ends it.
#pragma once

#include "agent/options/config.hpp"

namespace lb::agent {

/// Returns the exit code after SIGTERM or SIGINT; everything stays pinned and keeps serving. Throws
/// StartError before the agent is up.
[[nodiscard]] int run_agent(AgentOptions options);

}  // namespace lb::agent
