// Configures the kernel's connection tracking as kube-proxy does (SEM-55): our own flows need none of it, but
// the stack tracks other connections as before.
#pragma once

#include <string>
#include <vector>

#include "agent/options/config.hpp"

namespace lb::agent {

/// Processors that count for conntrack_max().
[[nodiscard]] unsigned online_cpus();

/// Entries that conntrack shall have room for; 0: as it is.
[[nodiscard]] std::uint64_t conntrack_max(const ConntrackSettings& settings, unsigned cpus);

/// What is wrong where the kernel's connection tracking is not there, and what to do.
[[nodiscard]] std::string conntrack_lack(const ConntrackSettings& settings);
inline constexpr const char* load_conntrack = "load it by 'modprobe nf_conntrack' before the agent starts";

/// Is it there?
[[nodiscard]] bool has_conntrack(const ConntrackSettings& settings);

/// Writes what differs in the settings' directory. What cannot be read or written is skipped; returns it as
/// one sentence, empty if there was nothing. What is not this network namespace's, the kernel lets only the
/// host's write.
[[nodiscard]] std::string set_conntrack(const ConntrackSettings& settings, unsigned cpus);

}  // namespace lb::agent
