// The maps that tell programs which devices take part, keyed by interface index.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "maps/abi/abi.h"

namespace lb::agent {

/// Into lb_devices. An entry that is right is left alone. A full map shows as a device that is not served.
void put_device(int map, std::uint32_t index, lb_device_kind kind);
/// Into lb_devmap; likewise.
void put_port(int map, std::uint32_t index);
/// From either; nothing there is fine.
void erase_device(int map, std::uint32_t index);
void keep_only(int map, const std::set<std::uint32_t>& wanted);
/// The indices in either.
[[nodiscard]] std::vector<std::uint32_t> devices_in(int map);
/// Those of lb_devices that are uplinks.
[[nodiscard]] std::vector<std::uint32_t> uplinks_in(int map);

}  // namespace lb::agent
