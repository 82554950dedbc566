// SPDX-License-Identifier: Apache-2.0
// Links of BPF programs that iterate over the elements of a map.
#pragma once

#include "maps/map.hpp"

namespace lb::agent {

/// Links an iterator program to the map that it goes through; without a descriptor if the kernel refuses.
[[nodiscard]] maps::Fd link_iterator(int program, int map);

}  // namespace lb::agent
