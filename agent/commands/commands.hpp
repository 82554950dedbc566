// The read-only commands for operators, with or without a running agent; all but `check` read the pinned
// maps.
#pragma once

#include <string>

#include "agent/options/config.hpp"

namespace lb::agent {

/// The text to print. Throws StartError where nothing is pinned or nothing matches.
[[nodiscard]] std::string run_command(Command command, const ShowOptions& options);

/// Looks at this machine for an agent of these options and prints what was found; the exit code: 0 if it
/// would start. With --against see check_against.hpp.
[[nodiscard]] int run_check(const Options& options);

}  // namespace lb::agent
