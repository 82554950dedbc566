// Copies what one map holds into a larger one of the same shape.
#pragma once

#include "maps/map.hpp"

namespace lb::maps {

/// Arrays that can be mapped as a whole, other maps key by key; a key that `to` has already is replaced.
/// EINVAL where the two are of different shape or `to` is smaller; else an error as of bpf(2) or mmap(2),
/// with a part copied. Nothing may write to `from` meanwhile.
[[nodiscard]] error_code copy_entries(int from, int to);

/// Fills an array with the first elements of a larger one, which can be mapped, too. EINVAL where the two are
/// of different shape or no such arrays; else as above.
[[nodiscard]] error_code copy_start(int from, int to);

}  // namespace lb::maps
