// SPDX-License-Identifier: Apache-2.0
// Filters by handle, and others by the maps of their program.
#include "agent/programs/filter_owner.hpp"

#include <bpf/bpf.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <vector>

#include "agent/programs/pins_beside.hpp"
#include "agent/programs/program.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

/// Recognizes our programs by name; only CAP_SYS_ADMIN can read program info, and libbpf names the filter
/// after the program.
bool runs_our_code(const TcFilter& filter) {
  const auto info = program_info_of(filter.program);
  const auto& name = info ? info->name : filter.name;
  return name.starts_with("lb_tc_") || name.starts_with("lb_pod_");
}

/// The ids of the pinned node pages, which all of our programs use.
std::set<std::uint32_t> pages_of(const std::vector<maps::Pins>& layouts) {
  std::set<std::uint32_t> pages;
  for (const auto& pins : layouts) {
    const maps::Fd page(bpf_obj_get(pins.map("lb_node").c_str()));
    if (const auto info = maps::map_info(page.get())) {
      pages.insert(info->id);
    }
  }
  return pages;
}

bool uses_any(const ProgramInfo& program, const std::set<std::uint32_t>& maps) {
  return std::ranges::any_of(program.maps, [&](auto map) { return maps.contains(map); });
}

}  // namespace

// Normalizes the path, so that each spelling gives the same handles.
FilterOwner::FilterOwner(const std::filesystem::path& pins) {
  std::error_code unknown;
  pins_ = std::filesystem::weakly_canonical(pins, unknown);
  if (!pins_.has_filename()) {
    pins_ = pins_.parent_path();
  }
  handles_ = filter_handles_of(pins_.native());
}

// If the kernel does not say which maps a program uses (without CAP_SYS_ADMIN), the filter is kept if it may
// be another Sluice's.
bool FilterOwner::owns(const TcFilter& filter) const {
  if (filter.program == 0 || !runs_our_code(filter)) {
    return false;
  }
  if (handles_.contains(filter.handle)) {
    return true;
  }
  const auto info = program_info_of(filter.program);
  if (older_filter_handles.contains(filter.handle)) {
    const auto others = pages_of(pins_beside(pins_));
    return info ? !uses_any(*info, others) : others.empty();
  }
  return all_filter_handles.contains(filter.handle) && info && uses_any(*info, pages_of(layouts_of(pins_)));
}

}  // namespace lb::agent
