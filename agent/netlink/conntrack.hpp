// SPDX-License-Identifier: Apache-2.0
// Configures the kernel's connection tracking as kube-proxy does (SEM-55). Sluice's own flows do not use
// conntrack, but the stack tracks other connections as before.
#pragma once

#include <string>
#include <vector>

#include "agent/options/config.hpp"

namespace lb::agent {

/// Number of online processors, for conntrack_max().
[[nodiscard]] unsigned online_cpus();

/// The value for nf_conntrack_max; 0: leave it unchanged.
[[nodiscard]] std::uint64_t conntrack_max(const ConntrackSettings& settings, unsigned cpus);

/// Error message for a kernel in which nf_conntrack is not loaded, with the consequences.
[[nodiscard]] std::string conntrack_lack(const ConntrackSettings& settings);
inline constexpr const char* load_conntrack = "load it by 'modprobe nf_conntrack' before the agent starts";

/// Whether nf_conntrack is loaded, that is, whether its sysctls exist.
[[nodiscard]] bool has_conntrack(const ConntrackSettings& settings);

/// Writes each sysctl in the settings' directory whose value differs. Sysctls that cannot be read or written
/// are skipped; returns one message about all of them, empty if there were none. The kernel accepts writes to
/// sysctls that are not per network namespace only from the host's namespace.
[[nodiscard]] std::string set_conntrack(const ConntrackSettings& settings, unsigned cpus);

}  // namespace lb::agent
