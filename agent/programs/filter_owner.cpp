// Filters by handle, and older ones by the maps of their program.
#include "agent/programs/filter_owner.hpp"

#include <bpf/bpf.h>

#include <algorithm>
#include <set>
#include <system_error>

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

/// The node pages of every other Sluice with pins beside these.
std::set<std::uint32_t> pages_beside(const std::filesystem::path& base) {
  std::set<std::uint32_t> pages;
  for (const auto& pins : pins_beside(base)) {
    const maps::Fd page(bpf_obj_get(pins.map("lb_node").c_str()));
    if (const auto info = maps::map_info(page.get())) {
      pages.insert(info->id);
    }
  }
  return pages;
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
  if (!older_filter_handles.contains(filter.handle)) {
    return handles_.contains(filter.handle);
  }
  const auto others = pages_beside(pins_);
  const auto info = program_info_of(filter.program);
  return info ? std::ranges::none_of(info->maps, [&](auto map) { return others.contains(map); })
              : others.empty();
}

}  // namespace lb::agent
