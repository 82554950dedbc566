// SPDX-License-Identifier: Apache-2.0
// Takes over the pins of a Sluice with another map layout below the same directory (REL-41): its secret at
// once, its hooks once there is a plan, each by one update in place. Its maps cannot be read; they are
// removed when no program uses them any more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "maps/mapset.hpp"

namespace lb::agent {

struct OtherLayout {
  std::uint32_t layout = 0;
  std::size_t hooks = 0;  ///< number of pinned links and notes taken over
};

/// The secret of the newest other layout, whose node page has it at the same offset: with it flows find their
/// backends and ports again. nullopt if there is none.
[[nodiscard]] std::optional<std::array<std::uint64_t, 2>> inherited_secret(const maps::Pins& pins);

/// Moves the pins of all other layouts' hooks to ours, where attaching finds them and replaces their
/// programs. Hooks that we have already are left to remove_other_layout().
[[nodiscard]] std::vector<OtherLayout> take_over_hooks(const maps::Pins& pins);

/// Detaches the remaining hooks of that layout and removes all its pins.
void remove_other_layout(const maps::Pins& pins, const OtherLayout& other_layout);

}  // namespace lb::agent
