// SPDX-License-Identifier: Apache-2.0
// The read-only commands for operators, with or without a running agent; all but `check` read the pinned
// maps.
#pragma once

#include <string>

#include "agent/options/config.hpp"

namespace lb::agent {

/// Returns the text to print. Throws StartError if nothing is pinned or nothing matches.
[[nodiscard]] std::string run_command(Command command, const ShowOptions& options);

/// Checks this machine for an agent with these options and prints the findings; returns the exit code: 0 if
/// it would start. For --against see check_against.hpp.
[[nodiscard]] int run_check(const Options& options);

}  // namespace lb::agent
