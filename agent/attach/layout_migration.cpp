// SPDX-License-Identifier: Apache-2.0
// Renames pins within one BPF file system, and reads the one field that every layout has at the same offset.
#include "agent/attach/layout_migration.hpp"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/fs.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "agent/attach/detach.hpp"
#include "maps/abi/abi.h"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

namespace fs = std::filesystem;

maps::Pins of_layout(const maps::Pins& pins, std::uint32_t layout) { return maps::Pins(pins.base(), layout); }

std::size_t move_hooks(const maps::Pins& from, const maps::Pins& to) {
  std::vector<fs::path> hooks;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(from.links(), error)) {
    hooks.push_back(entry.path());
  }
  return static_cast<std::size_t>(std::ranges::count_if(hooks, [&](const fs::path& hook) {
    const auto there = to.links() / hook.filename();
    return ::renameat2(AT_FDCWD, hook.c_str(), AT_FDCWD, there.c_str(), RENAME_NOREPLACE) == 0;
  }));
}

}  // namespace

std::optional<std::array<std::uint64_t, 2>> inherited_secret(const maps::Pins& pins) {
  const auto layout = pins.other_layout();
  if (layout == 0) {
    return std::nullopt;
  }
  const maps::Fd page(bpf_obj_get(of_layout(pins, layout).map("lb_node").c_str()));
  const auto info = maps::map_info(page.get());
  std::array<std::uint64_t, 2> secret{};
  if (!info || info->type != BPF_MAP_TYPE_ARRAY || info->key_size != sizeof(std::uint32_t) ||
      info->value_size < offsetof(lb_node, secret) + sizeof(secret)) {
    return std::nullopt;
  }
  std::vector<char> value(info->value_size);
  const std::uint32_t zero = 0;
  if (bpf_map_lookup_elem(page.get(), &zero, value.data()) != 0) {
    return std::nullopt;
  }
  std::memcpy(secret.data(), value.data() + offsetof(lb_node, secret), sizeof(secret));
  return secret;
}

std::vector<OtherLayout> take_over_hooks(const maps::Pins& pins) {
  std::vector<OtherLayout> found;
  for (const auto layout : pins.other_layouts()) {
    found.push_back({layout, move_hooks(of_layout(pins, layout), pins)});
  }
  return found;
}

void remove_other_layout(const maps::Pins& pins, const OtherLayout& other_layout) {
  detach_pins(of_layout(pins, other_layout.layout));
}

}  // namespace lb::agent
