// SPDX-License-Identifier: Apache-2.0
// A consistent table of slots, like Maglev's: computed only from the identities of the backends, so that all
// load balancers have the same table, and when backends are removed, hardly any slots change but theirs.
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "k8s/objects/model.hpp"

namespace lb::agent {

/// A backend of the set for which a table is made.
struct RendezvousMember {
  k8s::Address address;
  std::uint16_t port = 0;
  std::uint8_t weight = 1;  ///< 1 to 100
  std::uint32_t id = 0;     ///< the value for its slots
};

/// Fills `slots` with `size` ids; with one if there is one member, with none if there is none. No member
/// exceeds its share by weight by more than a twentieth plus one slot. Takes members times slots steps of
/// about a nanosecond (several if weights differ).
void rendezvous_slots(std::span<const RendezvousMember> members, std::uint32_t size,
                      std::vector<std::uint32_t>& slots);

}  // namespace lb::agent
