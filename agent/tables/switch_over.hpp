// The part of the node page about the change from one service proxy to another. The agent writes some of it,
// and `sluice drain` the rest, directly into the page, so no agent needs to run.
#pragma once

#include <cstdint>

#include "maps/abi/abi.h"
#include "maps/map.hpp"
#include "maps/mapped.hpp"

namespace lb::agent {

/// Whether conntrack goes on translating what others have begun.
void set_conntrack_nat(maps::MappedArray<lb_node>& page, lb_bool translates);

/// From now on no flow is opened, until `deadline` (lb_clock) while flows are waited for. Said again, it
/// keeps its beginning.
void set_draining(maps::MappedArray<lb_node>& page, std::uint32_t deadline);
/// Flows are opened again.
void end_draining(maps::MappedArray<lb_node>& page);

/// The service that packets to that address and port are for: at its own address, or by a node port at one of
/// this node's that serves them. 0: none.
[[nodiscard]] std::uint32_t service_at(const maps::Table<lb_frontend_key, lb_frontend>& frontends,
                                       const maps::Table<lb_address_key, lb_address>& addresses,
                                       const lb_frontend_key& key);

}  // namespace lb::agent
