// SPDX-License-Identifier: Apache-2.0
// The agent's start-up sequence: from options to a node that is served.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/datapath/lock.hpp"
#include "agent/options/config.hpp"
#include "agent/programs/acceptance.hpp"
#include "agent/run/end_signals.hpp"
#include "agent/run/start_phase.hpp"

namespace lb::agent {

/// Facts known before an agent starts.
struct Start {
  PinLock& lock;  ///< of the pins
  Readiness readiness = Readiness::never;
  std::uint32_t min_slots = 0;  ///< minimum size of lb_slots: the size that the options requested at first
  std::optional<std::string> absence = std::nullopt;  ///< message to report about a missing earlier agent
  std::vector<ProgramRefusal>& refusals;  ///< those that earlier agents of this process have reported
};

enum class SizeChange : std::uint8_t { larger, smaller };

/// How the next agent must start, because tables are too small, or slots mostly free (SEM-81), or because the
/// configuration file has changed.
struct Next {
  Sizes sizes;
  Readiness readiness = Readiness::never;
  SizeChange change = SizeChange::larger;
  std::optional<AgentOptions> options = std::nullopt;  ///< options of the changed file; nullopt: unchanged
};

/// Runs until SIGTERM or SIGINT, then returns nullopt; or until another agent must start. Options of a
/// changed configuration file that take effect at once are written into `options`. Everything stays pinned
/// and keeps serving. A node that was ready is ready again as soon as it serves, even if something does not
/// fit. Throws StartError before the agent is up.
[[nodiscard]] std::optional<Next> serve(AgentOptions& options, const Start& start, EndSignals& ends);

}  // namespace lb::agent
