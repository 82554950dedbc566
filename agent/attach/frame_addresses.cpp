// SPDX-License-Identifier: Apache-2.0
// Finds the entries by the name of their variable: an earlier version's memory may have another layout.
#include "agent/attach/frame_addresses.hpp"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string_view>

#include "agent/programs/program.hpp"

namespace lb::agent {
namespace {

using Types = std::unique_ptr<btf, decltype(&btf__free)>;

constexpr std::string_view variable = "lb_frame_addresses";

/// Offset of the entries in a data section; nullopt if it has none, or entries of another layout.
std::optional<std::size_t> offset_in(const btf* types, std::uint32_t section) {
  const auto* type = btf__type_by_id(types, section);
  if (type == nullptr || !btf_is_datasec(type)) {
    return std::nullopt;
  }
  for (const auto& each : std::span(btf_var_secinfos(type), btf_vlen(type))) {
    const auto* name = btf__name_by_offset(types, btf__type_by_id(types, each.type)->name_off);
    if (name != nullptr && name == variable && each.size == LB_FRAME_ADDRESSES * sizeof(lb_frame_address)) {
      return each.offset;
    }
  }
  return std::nullopt;
}

FrameAddresses::Memory entries_at(std::byte* begin) {
  return {reinterpret_cast<lb_frame_address*>(begin), LB_FRAME_ADDRESSES};
}

/// Offset of the entries in that map; nullopt if it is not a section with entries.
std::optional<std::size_t> offset_in(const bpf_map_info& map) {
  const Types types(btf__load_from_kernel_by_id(map.btf_id), &btf__free);
  return types ? offset_in(types.get(), map.btf_value_type_id) : std::nullopt;
}

}  // namespace

/// The entry is empty while it changes, so that no reader sees parts of two addresses.
void FrameAddresses::store(lb_frame_address& entry, const Known& known) {
  if (entry.device == known.device && entry.uplink == known.uplink &&
      std::ranges::equal(entry.address, known.mac)) {
    return;
  }
  const std::atomic_ref holder(entry.device);
  holder.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // empty before the first byte of the new address
  std::ranges::copy(known.mac, std::begin(entry.address));
  entry.uplink = known.uplink;
  holder.store(known.device, std::memory_order_release);  // and named after the last
}

void FrameAddresses::add(Memory memory) {
  if (memory.size() != known_.size() ||
      std::ranges::find(memories_, memory.data(), &Memory::data) != memories_.end()) {
    return;
  }
  memories_.push_back(memory);
  for (std::size_t at = 0; at < known_.size(); ++at) {
    store(memory[at], known_[at]);
  }
}

void FrameAddresses::add_program(std::uint32_t program) {
  const auto [place, unknown] = programs_.try_emplace(program);
  const auto info = unknown ? program_info_of(program) : ProgramInfo();
  for (const auto id : info ? info->maps : std::vector<std::uint32_t>()) {
    maps::Fd fd(bpf_map_get_fd_by_id(id));
    bpf_map_info map{};
    std::uint32_t size = sizeof(map);
    if (!fd || bpf_map_get_info_by_fd(fd.get(), &map, &size) != 0 || map.btf_id == 0) {
      continue;
    }
    const auto offset = offset_in(map);
    if (!offset) {
      continue;
    }
    if (auto mapping = maps::Mapping::of_map(fd.get(), map.value_size, maps::Access::write)) {
      place->second.emplace(std::move(fd), std::move(*mapping));
      add(entries_at(place->second->mapping.at(*offset)));
    }
    return;
  }
}

bool FrameAddresses::put(std::uint32_t device, std::uint32_t uplink, const Mac& mac) {
  const auto at = device % known_.size();
  if (known_[at].device != 0 && known_[at].device != device) {
    return false;
  }
  known_[at] = {device, uplink, mac};
  write(at);
  return true;
}

void FrameAddresses::keep_only(const std::set<std::uint32_t>& devices) {
  for (std::size_t at = 0; at < known_.size(); ++at) {
    if (known_[at].device != 0 && !devices.contains(known_[at].device)) {
      known_[at] = {};
      write(at);
    }
  }
}

void FrameAddresses::write(std::size_t at) {
  for (const auto& memory : memories_) {
    store(memory[at], known_[at]);
  }
}

}  // namespace lb::agent
