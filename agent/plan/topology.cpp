// SPDX-License-Identifier: Apache-2.0
// Decides which endpoints of a service port a node uses.
#include "agent/plan/topology.hpp"

namespace lb::agent {
namespace {

/// All or nothing: one ready endpoint without a hint disables that kind of hint (SEM-21).
Traits by_hints(const EndpointCounts& counts) noexcept {
  if (counts.node_hinted == counts.ready && counts.my_node > 0) {
    return trait::ready | trait::my_node_hint;
  }
  if (counts.zone_hinted == counts.ready && counts.my_zone > 0) {
    return trait::ready | trait::my_zone_hint;
  }
  return trait::ready;
}

/// The first key, which is the lowest bit.
constexpr Traits first_key(Traits keys) noexcept { return keys & (~keys + 1); }

Traits by_keys(const EndpointCounts& counts) noexcept {
  if (counts.ready_keys != 0) {
    return trait::ready | first_key(counts.ready_keys);
  }
  if (counts.draining_keys != 0) {
    return trait::draining | first_key(counts.draining_keys);
  }
  return trait::none;
}

}  // namespace

Traits cluster_set(const EndpointCounts& counts, TopologyMode mode) noexcept {
  if (mode == TopologyMode::keys) {
    return by_keys(counts);
  }
  if (counts.ready > 0) {
    return by_hints(counts);
  }
  return counts.draining > 0 ? trait::draining : trait::none;
}

Traits local_set(const EndpointCounts& counts) noexcept {
  if (counts.local_ready > 0) {
    return trait::ready | trait::local;
  }
  return counts.local_draining > 0 ? trait::draining | trait::local : trait::none;
}

}  // namespace lb::agent
