// SPDX-License-Identifier: Apache-2.0
// The pins of other Sluices on this node: those in directories beside ours.
#pragma once

#include <filesystem>
#include <vector>

#include "maps/mapset.hpp"

namespace lb::agent {

/// All layouts pinned below a directory.
[[nodiscard]] std::vector<maps::Pins> layouts_of(const std::filesystem::path& base);

/// All layouts of every other Sluice with pins beside these.
[[nodiscard]] std::vector<maps::Pins> pins_beside(const std::filesystem::path& base);

}  // namespace lb::agent
