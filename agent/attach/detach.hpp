// SPDX-License-Identifier: Apache-2.0
// Detaches all programs and removes the pins.
#pragma once

#include "maps/mapset.hpp"

namespace lb::agent {

/// Detaches all pinned links and removes the pins. It is not an error if nothing is pinned.
void detach_pins(const maps::Pins& pins);

/// Like detach_pins(), and also removes our clsact filters, which have no pins, from the devices of this
/// network namespace.
void detach_all(const maps::Pins& pins);

}  // namespace lb::agent
