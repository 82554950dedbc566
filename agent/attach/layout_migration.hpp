// Takes over what a Sluice with another map layout has pinned below the same directory (REL-41): its secret
// at once, its hooks when there is a plan, each by one update in place. Its maps cannot be read; they are
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
  std::size_t hooks = 0;  ///< pinned links and notes that are ours now
};

/// The secret of the newest other layout, whose node page has it in the same place: with it flows find their
/// backends and ports again. Nothing where there is none.
[[nodiscard]] std::optional<std::array<std::uint64_t, 2>> inherited_secret(const maps::Pins& pins);

/// Moves the pins of all other layouts' hooks to ours, where attaching finds them and puts our programs
/// behind them. A hook that we have already is left to remove_other_layout().
[[nodiscard]] std::vector<OtherLayout> take_over_hooks(const maps::Pins& pins);

/// Detaches what is left of that layout's hooks and removes all that it has pinned.
void remove_other_layout(const maps::Pins& pins, const OtherLayout& other_layout);

}  // namespace lb::agent
