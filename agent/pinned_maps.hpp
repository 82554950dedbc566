// The maps of a loaded object and their pins: sized before they are made, adopted where they are pinned
// already.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "agent/config.hpp"
#include "maps/mapset.hpp"

struct bpf_object;

namespace lb::agent {

/// Before load: the sizes of the options.
void set_sizes(bpf_object* object, const Sizes& sizes);

/// Before load: throws StartError where the full maps would not fit the agent's memory cgroup (REL-62).
void require_memory(bpf_object* object);

/// Before load: takes over the maps that are pinned, with their sizes. Returns what an operator should know,
/// in sentences. Throws StartError where a pinned map is another version's.
[[nodiscard]] std::vector<std::string> adopt_maps(bpf_object* object, const maps::Pins& pins);

/// Pins again what somebody unpinned, as far as the kernel lets it; how many that were.
[[nodiscard]] std::size_t repin_maps(const bpf_object* object, const maps::Pins& pins);

/// After load: pins what is not pinned yet. Throws StartError.
void pin_maps(bpf_object* object, const maps::Pins& pins);

}  // namespace lb::agent
