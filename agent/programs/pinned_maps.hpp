// SPDX-License-Identifier: Apache-2.0
// The maps of a loaded object and their pins: sets sizes before creation, adopts maps that are already
// pinned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/options/config.hpp"
#include "maps/mapset.hpp"

struct bpf_object;

namespace lb::agent {

/// Whether the map of this name is pinned: all are but scratch memory, which holds nothing that the next
/// agent needs. Another version may have another size of it, which must not keep either from starting.
[[nodiscard]] bool is_pinned_map(std::string_view name);

/// Before load: sets the sizes of the options.
void set_sizes(bpf_object* object, const Sizes& sizes);

/// Before load: throws StartError if the full maps would not fit into the agent's memory cgroup (REL-62).
void require_memory(bpf_object* object);

/// Bytes that the agent and its full maps need, as checked by require_memory().
[[nodiscard]] std::uint64_t needed_memory(const bpf_object* object);

/// Why tables of these sizes would not fit beside the existing ones; nullopt: they would.
[[nodiscard]] std::optional<std::string> memory_shortage(const bpf_object* object, const Sizes& sizes);

/// Before load: throws StartError if adopt_maps() would. Changes nothing.
void require_adoptable(const bpf_object* object, const maps::Pins& pins);

/// A pinned table with its contents that must be resized: it is smaller than wanted, or it is lb_slots,
/// larger than wanted, with all slots in use in the first half of the wanted size.
struct Outgrown {
  std::string name;
  maps::Fd table;
};

/// The result of adopting the pinned maps.
struct AdoptedMaps {
  std::vector<std::string> notes;  ///< messages for the operator
  std::vector<Outgrown> outgrown;  ///< tables to resize by replace_outgrown()
};

/// Before load: adopts the pinned maps with their sizes, except tables that are smaller than set_sizes()
/// wants. Throws StartError if a pinned map is of another version.
[[nodiscard]] AdoptedMaps adopt_maps(bpf_object* object, const maps::Pins& pins);

/// After load: copies the contents of the outgrown tables to the new ones, and then pins each in place of the
/// old one, which stays in use until programs are replaced. A process killed in between leaves tables with
/// equal contents (SEM-81). Throws StartError; each pin is then either unchanged or replaced.
void replace_outgrown(bpf_object* object, const maps::Pins& pins, const std::vector<Outgrown>& outgrown);

/// Restores pins that another process has removed, if the kernel permits; returns their number.
[[nodiscard]] std::size_t repin_maps(const bpf_object* object, const maps::Pins& pins);

/// After load: pins maps that are not pinned yet. Throws StartError.
void pin_maps(bpf_object* object, const maps::Pins& pins);

}  // namespace lb::agent
