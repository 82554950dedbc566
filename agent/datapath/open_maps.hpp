// The pinned maps of one agent, with what waits for programs that read them, sweeps their flows and counts
// them.
#pragma once

#include <cstdint>
#include <memory>

#include "agent/tables/snapshot.hpp"
#include "maps/grace.hpp"
#include "maps/mapset.hpp"
#include "maps/sweep.hpp"

namespace lb::agent {

/// Throws StartError where they are not there, or may not be opened so.
[[nodiscard]] maps::MapSet open_maps(const maps::Pins& pins, maps::Access access);

/// The parts refer to each other: it stays where it is made.
struct OpenMaps {
  /// `hertz` is the kernel's (lb_node), `post` runs what is to be done later on the agent's thread. Throws
  /// StartError where maps cannot be opened.
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
