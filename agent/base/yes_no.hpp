// SPDX-License-Identifier: Apache-2.0
// Booleans in the form of the maps.
#pragma once

#include "maps/abi/abi.h"

namespace lb::agent {

[[nodiscard]] constexpr lb_bool yes_if(bool condition) noexcept { return condition ? LB_YES : LB_NO; }

}  // namespace lb::agent
