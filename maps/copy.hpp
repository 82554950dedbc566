// SPDX-License-Identifier: Apache-2.0
// Copies the contents of one map to another of the same shape.
#pragma once

#include "maps/map.hpp"

namespace lb::maps {

/// Copies all entries: arrays by memory (they must be mappable), other maps key by key; a key that `to`
/// already has is replaced. EINVAL if the two are of different shape or `to` is smaller; else an error of
/// bpf(2) or mmap(2), with a part copied. Nothing may write to `from` meanwhile.
[[nodiscard]] error_code copy_entries(int from, int to);

/// Fills an array with the first elements of a larger one; both must be mappable. EINVAL if the two are of
/// different shape or not such arrays; else as above.
[[nodiscard]] error_code copy_first_elements(int from, int to);

}  // namespace lb::maps
