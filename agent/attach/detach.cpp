// SPDX-License-Identifier: Apache-2.0
// Removes the pinned links before the maps, so that no program runs whose maps are being removed.
#include "agent/attach/detach.hpp"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "agent/attach/attach.hpp"
#include "agent/base/cgroup.hpp"
#include "agent/programs/links.hpp"
#include "agent/programs/tc_hook.hpp"

namespace lb::agent {

void detach_all(const maps::Pins& pins) {
  const Links links(pins.links());
  remove_clsact_filters(links.owner(), {});
  release_qdiscs(links);
  detach_pins(pins);
}

void detach_pins(const maps::Pins& pins) {
  const Links links(pins.links());
  links.prune({});
  for (const auto& note : links.notes("")) {
    links.forget(note);
  }
  std::vector<std::filesystem::path> pinned;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(pins.maps(), error)) {
    pinned.push_back(entry.path());
  }
  for (const auto& path : pinned) {
    ::unlink(path.c_str());
  }
  remove_empty_pins(pins);
}

}  // namespace lb::agent
