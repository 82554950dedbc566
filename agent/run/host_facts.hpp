// SPDX-License-Identifier: Apache-2.0
// Facts about the machine that prevent no start, or only together with other software, and that an operator
// should know before: for `sluice check`.
#pragma once

#include "agent/attach/prerequisites.hpp"
#include "agent/base/findings.hpp"
#include "agent/options/config.hpp"

namespace lb::agent {

/// Settings and build options of the kernel that affect BPF programs.
void check_settings(Findings& findings);

/// Privileges that a process can use but does not need.
void check_rights(const AgentOptions& options, Findings& findings);

/// Optional features that the kernel has or lacks, or that options disable.
void check_features(const Prerequisites& found, Findings& findings);

/// The kernel's connection tracking.
void check_conntrack(const AgentOptions& options, const Prerequisites& found, Findings& findings);

/// Other programs at the devices' tc hooks, and kube-proxy.
void check_hook_neighbours(const AgentOptions& options, Findings& findings);

}  // namespace lb::agent
