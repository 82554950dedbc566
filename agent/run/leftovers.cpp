// Pins below one directory, and clsact filters, which have no pin.
#include "agent/run/leftovers.hpp"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <system_error>

#include "agent/attach/detach.hpp"
#include "agent/attach/hook_id.hpp"
#include "agent/datapath/datapath.hpp"
#include "agent/netlink/conntrack_keepalive.hpp"
#include "agent/programs/clsact.hpp"
#include "agent/programs/links.hpp"
#include "agent/programs/program.hpp"
#include "agent/programs/tc_hook.hpp"
#include "maps/map.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {
namespace {

namespace fs = std::filesystem;

std::vector<maps::Pins> layouts_of(const fs::path& base) {
  std::vector<maps::Pins> layouts;
  for (const auto layout : maps::Pins(base, 0).other_layouts()) {
    layouts.emplace_back(base, layout);
  }
  return layouts;
}

std::vector<fs::path> entries_of(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(at->path());
  }
  std::ranges::sort(entries);
  return entries;
}

/// The node pages of every Sluice whose pins are beside these.
std::set<std::uint32_t> pages_of_others(const fs::path& base) {
  std::set<std::uint32_t> pages;
  for (const auto& beside : entries_of(base.parent_path())) {
    if (beside == base) {
      continue;
    }
    for (const auto& pins : layouts_of(beside)) {
      const maps::Fd page(bpf_obj_get(pins.map("lb_node").c_str()));
      if (const auto info = maps::map_info(page.get())) {
        pages.insert(info->id);
      }
    }
  }
  return pages;
}

struct FoundFilter {
  int device = 0;
  TcSide side = TcSide::ingress;
  HookId hook;
};

/// Filters with our programs, but for those of another Sluice.
std::vector<FoundFilter> our_filters(const fs::path& base) {
  const auto others = pages_of_others(base);
  // Where the kernel does not say whose it is (without CAP_SYS_ADMIN), it is left if it may be another's.
  const auto is_others = [&](std::uint32_t program) {
    const auto info = program_info_of(program);
    return info ? std::ranges::any_of(info->maps, [&](auto map) { return others.contains(map); })
                : !others.empty();
  };
  const std::unique_ptr<struct if_nameindex, decltype(&if_freenameindex)> all(if_nameindex(),
                                                                              &if_freenameindex);
  std::vector<FoundFilter> found;
  for (const auto* device = all.get(); device != nullptr && device->if_index != 0; ++device) {
    for (const auto side : {TcSide::ingress, TcSide::egress}) {
      const auto index = static_cast<int>(device->if_index);
      if (const auto program = clsact_program(index, side); program != 0 && !is_others(program)) {
        const auto kind = side == TcSide::ingress ? HookKind::tc_ingress : HookKind::tc_egress;
        found.push_back({index, side, {kind, device->if_name}});
      }
    }
  }
  return found;
}

void add_pins(std::vector<std::string>& found, const maps::Pins& pins) {
  for (const auto& entry : entries_of(pins.links())) {
    found.push_back(fmt::format("{} {}", fs::is_directory(entry) ? "note" : "link", entry.string()));
  }
  for (const auto& entry : entries_of(pins.maps())) {
    found.push_back(fmt::format("map {}", entry.string()));
  }
  found.push_back(fmt::format("directory {}", pins.version().string()));
}

/// What keeps conntrack translating, and tracking.
std::array<std::string, 2> kept_tables(const fs::path& pins) {
  return {kept_nat_table(pins), kept_tracking_table(pins)};
}

std::vector<std::string> our_tables(const fs::path& pins) {
  std::vector<std::string> found;
  for (const auto& table : kept_tables(pins)) {
    for (const auto& family : families_with(table)) {
      found.push_back(fmt::format("nftables table {} {}", family, table));
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> leftovers(const fs::path& pins) {
  std::vector<std::string> found = our_tables(pins);
  for (const auto& filter : our_filters(pins)) {
    found.push_back("clsact filter at " + filter.hook.text());
  }
  const auto layouts = layouts_of(pins);
  for (const auto& layout : layouts) {
    add_pins(found, layout);
  }
  // What others keep there is theirs, and then the directory is, too.
  std::error_code error;
  if (fs::is_directory(pins, error) && entries_of(pins).size() == layouts.size()) {
    found.push_back(fmt::format("directory {}", pins.string()));
  }
  return found;
}

bool has_hooks(const maps::Pins& pins) {
  const auto entries = entries_of(pins.links());  // a directory among them is a note
  return std::ranges::any_of(entries, [](const auto& entry) { return !fs::is_directory(entry); }) ||
         !our_filters(pins.base()).empty();
}

void remove_leftovers(const fs::path& pins) {
  for (const auto& filter : our_filters(pins)) {
    remove_clsact(filter.device, filter.side);
  }
  for (const auto& layout : layouts_of(pins)) {
    release_qdiscs(Links(layout.links()));
    detach_pins(layout);
  }
  for (const auto& table : kept_tables(pins)) remove_kept(table);
  std::error_code ignored;
  fs::remove(pins, ignored);  // an empty directory alone
}

}  // namespace lb::agent
