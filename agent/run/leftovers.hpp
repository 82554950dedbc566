// Removes from this node everything that Sluice left there, whichever map layout it had (SEM-75).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "maps/mapset.hpp"

namespace lb::agent {

/// What is left, one line each: "link /sys/fs/bpf/sluice/v6/links/connect4", "clsact filter at eth0 ingress".
/// What a Sluice with other pins beside this one has is not among it.
[[nodiscard]] std::vector<std::string> leftovers(const std::filesystem::path& pins);

/// Is any program of ours at a hook, by a link of this layout or a clsact filter?
[[nodiscard]] bool has_hooks(const maps::Pins& pins);

/// Removes all of that as far as the kernel lets it: links are detached first, so that nothing runs on maps
/// that are gone. Nothing there is fine. The caller holds the lock of the pins.
void remove_leftovers(const std::filesystem::path& pins);

}  // namespace lb::agent
