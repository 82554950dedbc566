// Detaches all programs and removes the pins.
#pragma once

#include "maps/mapset.hpp"

namespace lb::agent {

/// Detaches everything that is pinned there and removes the pins. Nothing there is fine.
void detach_pins(const maps::Pins& pins);

/// The same, and takes our clsact filters, which no pin names, from the devices of this network namespace.
void detach_all(const maps::Pins& pins);

}  // namespace lb::agent
