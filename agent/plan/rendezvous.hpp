// A consistent table of slots, as Maglev's: computed only from the identities of the backends, so that every
// balancer has the same table, and when backends go, hardly any slots move but theirs. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "k8s/objects/model.hpp"

namespace lb::agent {

/// A backend of the set that a table is made for.
struct RendezvousMember {
  k8s::Address address;
  std::uint16_t port = 0;
  std::uint8_t weight = 1;  ///< 1 to 100
  std::uint32_t id = 0;     ///< what its slots shall hold
};

/// Fills `slots` with `size` ids, or one where there is one member, or none where there is none. No member
/// has more than a twentieth above its share by weight, plus one slot. Takes members times slots steps of
/// about a nanosecond (several where weights differ).
void rendezvous_slots(std::span<const RendezvousMember> members, std::uint32_t size,
                      std::vector<std::uint32_t>& slots);

}  // namespace lb::agent
