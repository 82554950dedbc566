// SPDX-License-Identifier: Apache-2.0
// The pinned maps of one agent, with the grace period, the flow sweeper and the flow counter that use them.
#pragma once

#include <cstdint>
#include <memory>

#include "agent/tables/snapshot.hpp"
#include "maps/grace.hpp"
#include "maps/mapset.hpp"
#include "maps/sweep.hpp"

namespace lb::agent {

/// Opens the pinned maps. Throws StartError if they do not exist, or cannot be opened with this access.
[[nodiscard]] maps::MapSet open_maps(const maps::Pins& pins, maps::Access access);

/// Not movable, because the members refer to each other.
struct OpenMaps {
  /// `hertz` is the kernel's tick rate (lb_node); `post` runs actions later on the agent's thread. Throws
  /// StartError if maps cannot be opened.
  OpenMaps(const maps::Pins& pins, std::uint32_t hertz, const maps::Post& post);
  OpenMaps(const OpenMaps&) = delete;
  OpenMaps& operator=(const OpenMaps&) = delete;

  maps::MapSet set;
  maps::Store store;
  std::unique_ptr<maps::KernelGrace> grace;
  maps::FlowSweeper sweeper;
  FlowCounter flow_counter;
};

}  // namespace lb::agent
