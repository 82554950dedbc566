// SPDX-License-Identifier: Apache-2.0
// Removes everything of Sluice from this node, of any map layout (SEM-75).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "maps/mapset.hpp"

namespace lb::agent {

/// What exists of Sluice, one line each: "link /sys/fs/bpf/sluice/v6/links/connect4", "clsact filter at eth0
/// ingress". Excludes another Sluice with pins in a directory beside this one.
[[nodiscard]] std::vector<std::string> leftovers(const std::filesystem::path& pins);

/// Whether any program of ours is attached to a hook, by a link of this layout or a clsact filter.
[[nodiscard]] bool has_hooks(const maps::Pins& pins);

/// Removes all leftovers that the kernel permits: links are detached first, so that no program runs on
/// removed maps. It is not an error if there are none. The caller holds the lock of the pins.
void remove_leftovers(const std::filesystem::path& pins);

}  // namespace lb::agent
