// Which endpoints of a service port a node uses.
#include "agent/plan/topology.hpp"

namespace lb::agent {
namespace {

/// All or nothing: one ready endpoint without a hint switches that kind of hint off (SEM-21).
Traits by_hints(const EndpointCounts& census) noexcept {
  if (census.node_hinted == census.ready && census.my_node > 0) return trait::ready | trait::my_node_hint;
  if (census.zone_hinted == census.ready && census.my_zone > 0) return trait::ready | trait::my_zone_hint;
  return trait::ready;
}

/// The first key is the lowest bit.
constexpr Traits first_key(Traits keys) noexcept { return keys & (~keys + 1); }

Traits by_keys(const EndpointCounts& census) noexcept {
  if (census.ready_keys != 0) return trait::ready | first_key(census.ready_keys);
  if (census.draining_keys != 0) return trait::draining | first_key(census.draining_keys);
  return trait::none;
}

}  // namespace

Traits cluster_set(const EndpointCounts& census, TopologyMode mode) noexcept {
  if (mode == TopologyMode::keys) return by_keys(census);
  if (census.ready > 0) return by_hints(census);
  return census.draining > 0 ? trait::draining : trait::none;
}

Traits local_set(const EndpointCounts& census) noexcept {
  if (census.local_ready > 0) return trait::ready | trait::local;
  return census.local_draining > 0 ? trait::draining | trait::local : trait::none;
}

}  // namespace lb::agent
