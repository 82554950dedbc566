// SPDX-License-Identifier: Apache-2.0
// Writes the link-layer address of each device that XDP serves (maps/abi/frame_address.h) into the memory of
// every program that may run there. A program that an earlier agent attached, and that this one keeps, has
// its own memory.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "maps/abi/frame_address.h"
#include "maps/map.hpp"
#include "maps/mapped.hpp"

namespace lb::agent {

class FrameAddresses {
 public:
  using Memory = std::span<lb_frame_address>;
  using Mac = std::array<std::uint8_t, 6>;

  /// Writes the known addresses there, and every change from now on; once for each memory. May be empty.
  void add(Memory memory);
  /// Likewise for the memory of an attached program, by its id; no-op if the program has no such memory.
  void add_program(std::uint32_t program);

  /// Sets a device's address, and the uplink that its frames belong to; false if another device has its
  /// entry.
  [[nodiscard]] bool put(std::uint32_t device, std::uint32_t uplink, const Mac& mac);
  /// Frees the entries of all other devices.
  void keep_only(const std::set<std::uint32_t>& devices);

 private:
  struct Known {
    std::uint32_t device = 0;
    std::uint32_t uplink = 0;
    Mac mac{};
  };
  struct Mapped {
    maps::Fd map;
    maps::Mapping mapping;
  };

  void write(std::size_t at);
  static void store(lb_frame_address& entry, const Known& known);

  std::array<Known, LB_FRAME_ADDRESSES> known_{};
  std::vector<Memory> memories_;
  std::map<std::uint32_t, std::optional<Mapped>> programs_;  ///< by id; nullopt: no such memory
};

}  // namespace lb::agent
