// The maps of a loaded object and their pins: sized before they are made, adopted where they are pinned
// already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/options/config.hpp"
#include "maps/mapset.hpp"

struct bpf_object;

namespace lb::agent {

/// Before load: the sizes of the options.
void set_sizes(bpf_object* object, const Sizes& sizes);

/// Before load: throws StartError where the full maps would not fit the agent's memory cgroup (REL-62).
void require_memory(bpf_object* object);

/// Bytes that the agent and its full maps need, as require_memory() asks for.
[[nodiscard]] std::uint64_t needed_memory(const bpf_object* object);

/// Why tables of these sizes, made beside those that there are, would not fit; nothing: they would.
[[nodiscard]] std::optional<std::string> memory_shortage(const bpf_object* object, const Sizes& sizes);

/// Before load: throws StartError where adopt_maps() would. Touches nothing.
void require_adoptable(const bpf_object* object, const maps::Pins& pins);

/// A pinned table that is smaller than it shall be, or an lb_slots that is larger and of which nothing is in
/// use beyond half of what it shall be; and what it holds.
struct Outgrown {
  std::string name;
  maps::Fd table;
};

/// The pinned maps, as they are taken over.
struct AdoptedMaps {
  std::vector<std::string> notes;  ///< what an operator should know, in sentences
  std::vector<Outgrown> outgrown;  ///< to be made again: replace_outgrown()
};

/// Before load: takes over the maps that are pinned, with their sizes; but for tables that are smaller than
/// set_sizes() has said. Throws StartError where a pinned map is another version's.
[[nodiscard]] AdoptedMaps adopt_maps(bpf_object* object, const maps::Pins& pins);

/// After load: fills the new tables with what the outgrown ones hold, and then pins each in the place of the
/// old one, which serves on until programs are replaced. A process that is killed in between leaves tables
/// that say the same (SEM-81). Throws StartError, with all that is pinned as it was or as it shall be.
void replace_outgrown(bpf_object* object, const maps::Pins& pins, const std::vector<Outgrown>& outgrown);

/// Pins again what another process has unpinned, as far as the kernel lets it; how many.
[[nodiscard]] std::size_t repin_maps(const bpf_object* object, const maps::Pins& pins);

/// After load: pins what is not pinned yet. Throws StartError.
void pin_maps(bpf_object* object, const maps::Pins& pins);

}  // namespace lb::agent
