// SPDX-License-Identifier: Apache-2.0
// Lists directories of a BPF file system.
#include "agent/programs/pins_beside.hpp"

#include <algorithm>
#include <iterator>
#include <system_error>

namespace lb::agent {

std::vector<maps::Pins> layouts_of(const std::filesystem::path& base) {
  std::vector<maps::Pins> layouts;
  for (const auto layout : maps::Pins(base, 0).other_layouts()) {
    layouts.emplace_back(base, layout);
  }
  return layouts;
}

std::vector<maps::Pins> pins_beside(const std::filesystem::path& base) {
  std::vector<maps::Pins> all;
  std::error_code error;
  for (std::filesystem::directory_iterator at(base.parent_path(), error), end; !error && at != end;
       at.increment(error)) {
    if (at->path() != base) {
      std::ranges::move(layouts_of(at->path()), std::back_inserter(all));
    }
  }
  return all;
}

}  // namespace lb::agent
