// The agent's recipe: from options to a node that is served.
#pragma once

#include <cstdint>
#include <optional>

#include "agent/options/config.hpp"
#include "agent/run/end_signals.hpp"

namespace lb::agent {

/// Was this node ready before this agent began?
enum class Readiness : std::uint8_t { never, before };

/// How the next agent is to begin, because tables are too small (SEM-81).
struct Larger {
  Sizes sizes;
  Readiness readiness = Readiness::never;
};

/// Until SIGTERM or SIGINT, after which it returns nothing; or until tables have to be made larger.
/// Everything stays pinned and serves on. A node that was ready is so again as soon as it serves, whatever
/// does not fit. The caller holds the lock of the pins. Throws StartError before the agent is up.
[[nodiscard]] std::optional<Larger> serve(const AgentOptions& options, Readiness readiness, EndSignals& ends);

}  // namespace lb::agent
