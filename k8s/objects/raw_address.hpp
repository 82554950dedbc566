// SPDX-License-Identifier: Apache-2.0
// Addresses in the form of the kernel and the maps: bytes in network order, 4 for IPv4, or 16 for either
// family.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "k8s/objects/model.hpp"

namespace lb::k8s {

/// Offset of IPv4's bytes within the 16 (::ffff:a.b.c.d).
inline constexpr std::size_t ipv4_at = 12;

[[nodiscard]] inline Address address_of(std::span<const std::uint8_t, 16> bytes) noexcept {
  Address address;
  std::ranges::copy(bytes, address.bytes.begin());
  return address;
}

[[nodiscard]] inline Address address_of(std::span<const std::uint8_t, 4> ipv4) noexcept {
  Address address;
  address.bytes[10] = address.bytes[11] = 0xff;
  std::ranges::copy(ipv4, address.bytes.begin() + ipv4_at);
  return address;
}

/// The 4 or 16 bytes for a message.
[[nodiscard]] inline std::span<const std::byte> raw_bytes(const Address& address) noexcept {
  const auto all = std::as_bytes(std::span(address.bytes));
  return address.family() == Family::ipv4 ? all.subspan(ipv4_at) : all;
}

/// Reads 4 or 16 bytes of a message; nullopt for any other size.
[[nodiscard]] inline std::optional<Address> read_address(std::span<const std::byte> message) noexcept {
  Address address;
  const auto whole = message.size() == address.bytes.size();
  if (!whole && message.size() != address.bytes.size() - ipv4_at) {
    return std::nullopt;
  }
  if (!whole) {
    address.bytes[10] = address.bytes[11] = 0xff;
  }
  std::memcpy(address.bytes.data() + (whole ? 0 : ipv4_at), message.data(), message.size());
  return address;
}

}  // namespace lb::k8s
