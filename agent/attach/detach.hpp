// Detaches all programs and removes the pins.
#pragma once

#include "maps/mapset.hpp"

namespace lb::agent {

/// Detaches everything that is pinned there and removes the pins. It is no error if nothing is pinned.
void detach_pins(const maps::Pins& pins);

/// The same, and also removes our clsact filters, which have no pins, from the devices of this network
/// namespace.
void detach_all(const maps::Pins& pins);

}  // namespace lb::agent
