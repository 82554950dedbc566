// SPDX-License-Identifier: Apache-2.0
// The broadcast address of a subnet. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "k8s/objects/model.hpp"

namespace lb::k8s {

/// The last address of an IPv4 subnet, whatever host bits are set in it. nullopt for IPv6, and for /31 and
/// /32, which have none (RFC 3021).
[[nodiscard]] inline std::optional<Address> broadcast_of(const Prefix& subnet) {
  constexpr std::uint8_t mapped_bits = 96;
  constexpr std::uint8_t longest = 126;
  if (subnet.address.family() != Family::ipv4 || subnet.length < mapped_bits || subnet.length > longest) {
    return std::nullopt;
  }
  Address last = subnet.address;
  for (unsigned bit = subnet.length; bit < 128; ++bit) {
    last.bytes.at(bit / 8) |= static_cast<std::uint8_t>(0x80U >> bit % 8);
  }
  return last;
}

}  // namespace lb::k8s
