// Facts about the machine that do not prevent a start, or only beside other software, and that an operator
// should know before: for `sluice check`.
#pragma once

#include "agent/attach/prerequisites.hpp"
#include "agent/base/findings.hpp"
#include "agent/options/config.hpp"

namespace lb::agent {

/// The kernel's settings that bear on programs.
void look_at_settings(Findings& findings);

/// What a process may do beyond what it must.
void look_at_rights(const AgentOptions& options, Findings& findings);

/// The optional features that the kernel has, has not, or shall not use.
void look_at_features(const Prerequisites& found, Findings& findings);

/// The kernel's connection tracking.
void look_at_conntrack(const AgentOptions& options, const Prerequisites& found, Findings& findings);

/// Who else is at the devices' tc hooks, and kube-proxy.
void look_at_hook_neighbours(const AgentOptions& options, Findings& findings);

}  // namespace lb::agent
