// The commands for people: read-only, from the pinned maps, with or without a running agent.
#pragma once

#include <string>

#include "agent/config.hpp"

namespace lb::agent {

/// The text to print. Throws StartError where nothing is pinned or nothing matches.
[[nodiscard]] std::string run_command(Command command, const ShowOptions& options);

}  // namespace lb::agent
