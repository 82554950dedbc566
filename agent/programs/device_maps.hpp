// SPDX-License-Identifier: Apache-2.0
// The maps of served devices for the programs, keyed by interface index.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "maps/abi/abi.h"

namespace lb::agent {

/// Adds a device to lb_devices. A correct entry is not rewritten. If the map is full, the device is not
/// served.
void put_device(int map, std::uint32_t index, lb_device_kind kind);
/// Adds a device to lb_devmap; likewise.
void put_port(int map, std::uint32_t index);
/// Removes a device from either map; a missing entry is not an error.
void erase_device(int map, std::uint32_t index);
void keep_only(int map, const std::set<std::uint32_t>& wanted);
/// The indices in either map.
[[nodiscard]] std::vector<std::uint32_t> devices_in(int map);
/// The uplinks in lb_devices.
[[nodiscard]] std::vector<std::uint32_t> uplinks_in(int map);

}  // namespace lb::agent
