// SPDX-License-Identifier: Apache-2.0
// Finds pins below one directory, and clsact filters, which have no pin.
#include "agent/run/leftovers.hpp"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <memory>
#include <system_error>

#include "agent/attach/detach.hpp"
#include "agent/attach/hook_id.hpp"
#include "agent/datapath/datapath.hpp"
#include "agent/netlink/conntrack_keepalive.hpp"
#include "agent/programs/clsact.hpp"
#include "agent/programs/links.hpp"
#include "agent/programs/pins_beside.hpp"
#include "agent/programs/tc_hook.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(at->path());
  }
  std::ranges::sort(entries);
  return entries;
}

struct FoundFilter {
  int device = 0;
  TcSide side = TcSide::ingress;
  HookId hook;
};

std::vector<FoundFilter> our_filters(const fs::path& base) {
  const FilterOwner owner(base);
  const std::unique_ptr<struct if_nameindex, decltype(&if_freenameindex)> all(if_nameindex(),
                                                                              &if_freenameindex);
  std::vector<FoundFilter> found;
  for (const auto* device = all.get(); device != nullptr && device->if_index != 0; ++device) {
    for (const auto side : {TcSide::ingress, TcSide::egress}) {
      const auto index = static_cast<int>(device->if_index);
      if (has_clsact(owner, index, side)) {
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

/// The nf_tables tables that keep conntrack translating and tracking.
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
  // If the directory has files of others, it is not ours.
  std::error_code error;
  if (fs::is_directory(pins, error) && entries_of(pins).size() == layouts.size()) {
    found.push_back(fmt::format("directory {}", pins.string()));
  }
  return found;
}

bool has_hooks(const maps::Pins& pins) {
  const auto entries = entries_of(pins.links());  // directories in it do not count
  return std::ranges::any_of(entries, [](const auto& entry) { return !fs::is_directory(entry); }) ||
         !our_filters(pins.base()).empty();
}

void remove_leftovers(const fs::path& pins) {
  const FilterOwner owner(pins);
  for (const auto& filter : our_filters(pins)) {
    remove_clsact(owner, filter.device, filter.side);
  }
  for (const auto& layout : layouts_of(pins)) {
    release_qdiscs(Links(layout.links()));
    detach_pins(layout);
  }
  for (const auto& table : kept_tables(pins)) {
    remove_kept(table);
  }
  std::error_code ignored;
  fs::remove(pins, ignored);  // removes only an empty directory
}

}  // namespace lb::agent
