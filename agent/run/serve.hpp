// The agent's recipe: from options to a node that is served.
#pragma once

#include <cstdint>
#include <optional>

#include "agent/options/config.hpp"
#include "agent/run/end_signals.hpp"

namespace lb::agent {

/// Was this node ready before this agent began?
enum class Readiness : std::uint8_t { never, before };

/// How the next agent is to begin, because tables are too small (SEM-81) or the configuration file has
/// changed.
struct Larger {
  Sizes sizes;
  Readiness readiness = Readiness::never;
  std::optional<AgentOptions> options = std::nullopt;  ///< those of the changed file; nothing: the same
};

/// Until SIGTERM or SIGINT, after which it returns nothing; or until another agent has to begin. What of a
/// changed configuration file comes into force at once is written into `options`. Everything stays pinned and
/// serves on. A node that was ready is so again as soon as it serves, whatever does not fit. The caller holds
/// the lock of the pins. Throws StartError before the agent is up.
[[nodiscard]] std::optional<Larger> serve(AgentOptions& options, Readiness readiness, EndSignals& ends);

}  // namespace lb::agent
