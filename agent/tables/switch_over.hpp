// SPDX-License-Identifier: Apache-2.0
// The part of the node page for the change from one service proxy to another. The agent writes some of it,
// and `sluice drain` writes the rest directly into the page, so no agent needs to run.
#pragma once

#include <cstdint>

#include "maps/abi/abi.h"
#include "maps/map.hpp"
#include "maps/mapped.hpp"

namespace lb::agent {

/// Sets whether conntrack keeps translating connections that other proxies began.
void set_conntrack_nat(maps::MappedArray<lb_node>& page, lb_bool translates);

/// Starts draining: no flow is created any more; `deadline` (lb_clock) is when waiting for flows ends. A
/// repeated call keeps the start time.
void set_draining(maps::MappedArray<lb_node>& page, std::uint32_t deadline);
/// Ends draining: flows are created again.
void end_draining(maps::MappedArray<lb_node>& page);

/// The number of the service for packets to that address and port: a frontend at that address, or a node port
/// if the address serves node ports. 0: none.
[[nodiscard]] std::uint32_t service_at(const maps::Table<lb_frontend_key, lb_frontend>& frontends,
                                       const maps::Table<lb_address_key, lb_address>& addresses,
                                       const lb_frontend_key& key);

}  // namespace lb::agent
