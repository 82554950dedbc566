// SPDX-License-Identifier: Apache-2.0
// The prerequisites of an agent on its machine, for its start and for `sluice check`, so that the two cannot
// disagree. Checking changes nothing.
#pragma once

#include <optional>
#include <string>

#include "agent/base/cgroup.hpp"
#include "agent/base/findings.hpp"
#include "agent/options/config.hpp"
#include "agent/programs/bpf_programs.hpp"
#include "agent/programs/features.hpp"

namespace lb::agent {

/// Results of the checks that a start uses.
struct Prerequisites {
  std::string secret;
  std::optional<Features> features;     ///< nullopt: the kernel could not be queried
  Cgroup cgroup;                        ///< empty if sockets are not served
  std::optional<BpfPrograms> programs;  ///< opened, with the options' sizes
};

/// Checks everything; a prerequisite of another check comes before it.
[[nodiscard]] Prerequisites check_prerequisites(const AgentOptions& options, Findings& findings);

/// Likewise for a start: throws StartError for the first missing prerequisite.
[[nodiscard]] Prerequisites require_prerequisites(const AgentOptions& options);

}  // namespace lb::agent
