// SPDX-License-Identifier: Apache-2.0
// Entries of lb_devices and lb_devmap.
#include "agent/programs/device_maps.hpp"

#include <bpf/bpf.h>

#include <cstring>

#include "maps/abi/checks.h"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

// Replacing an entry by an equal value would make concurrent lookups miss it.
template <class Value>
void put_if_other(int map, std::uint32_t key, const Value& value) {
  Value present;
  if (maps::raw::get(map, &key, &present) || std::memcmp(&present, &value, sizeof(value)) != 0) {
    static_cast<void>(maps::raw::put(map, &key, &value, maps::Put::any));
  }
}

}  // namespace

void put_device(int map, std::uint32_t index, lb_device_kind kind) {
  lb_device device{};
  device.kind = kind;
  device.check = lb_device_check(index);
  put_if_other(map, index, device);
}

void put_port(int map, std::uint32_t index) { put_if_other(map, index, index); }

void erase_device(int map, std::uint32_t index) { static_cast<void>(maps::raw::erase(map, &index)); }

std::vector<std::uint32_t> devices_in(int map) {
  std::vector<std::uint32_t> keys;
  std::uint32_t key = 0;
  std::uint32_t previous = 0;
  while (keys.size() < LB_MAX_DEVICES &&
         bpf_map_get_next_key(map, keys.empty() ? nullptr : &previous, &key) == 0) {
    keys.push_back(key);
    previous = key;
  }
  return keys;
}

std::vector<std::uint32_t> uplinks_in(int map) {
  auto devices = devices_in(map);
  std::erase_if(devices, [map](std::uint32_t index) {
    lb_device device{};
    return maps::raw::get(map, &index, &device) || device.kind != LB_UPLINK;
  });
  return devices;
}

void keep_only(int map, const std::set<std::uint32_t>& wanted) {
  for (const auto key : devices_in(map)) {
    if (!wanted.contains(key)) {
      erase_device(map, key);
    }
  }
}

}  // namespace lb::agent
