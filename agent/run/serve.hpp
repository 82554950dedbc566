// The agent's start-up sequence: from options to a node that is served.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/options/config.hpp"
#include "agent/run/end_signals.hpp"
#include "agent/run/start_phase.hpp"

namespace lb::agent {

/// What is known before an agent begins.
struct Start {
  Readiness readiness = Readiness::never;
  std::uint32_t least_slots = 0;  ///< the table of slots gets no smaller than was asked for at first
  std::optional<std::string> absence = std::nullopt;  ///< of any agent before, to be reported
};

enum class SizeChange : std::uint8_t { larger, smaller };

/// How the next agent is to begin, because tables are too small, or slots mostly free (SEM-81), or because
/// the configuration file has changed.
struct Next {
  Sizes sizes;
  Readiness readiness = Readiness::never;
  SizeChange change = SizeChange::larger;
  std::optional<AgentOptions> options = std::nullopt;  ///< those of the changed file; nothing: the same
};

/// Until SIGTERM or SIGINT, after which it returns nothing; or until another agent has to begin. What of a
/// changed configuration file comes into force at once is written into `options`. Everything stays pinned and
/// serves on. A node that was ready is so again as soon as it serves, whatever does not fit. The caller holds
/// the lock of the pins. Throws StartError before the agent is up.
[[nodiscard]] std::optional<Next> serve(AgentOptions& options, const Start& start, EndSignals& ends);

}  // namespace lb::agent
