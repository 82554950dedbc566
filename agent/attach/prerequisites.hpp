// The one list of what an agent needs of its machine, for its start and for `sluice check`, so that the two
// cannot disagree. Checking changes nothing.
#pragma once

#include <optional>
#include <string>

#include "agent/base/cgroup.hpp"
#include "agent/base/findings.hpp"
#include "agent/options/config.hpp"
#include "agent/programs/bpf_programs.hpp"
#include "agent/programs/features.hpp"

namespace lb::agent {

/// What was found on the way and a start goes on with.
struct Prerequisites {
  std::string secret;
  std::optional<Features> features;     ///< nothing: they cannot be asked for
  Cgroup cgroup;                        ///< empty where sockets are not served
  std::optional<BpfPrograms> programs;  ///< opened, with the options' sizes
};

/// Looks at everything, in the order in which one thing needs another.
[[nodiscard]] Prerequisites check_prerequisites(const AgentOptions& options, Findings& findings);

/// The same for a start: throws StartError for the first thing that is missing.
[[nodiscard]] Prerequisites require_prerequisites(const AgentOptions& options);

}  // namespace lb::agent
