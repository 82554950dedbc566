// SPDX-License-Identifier: Apache-2.0
// Builds packets. The reference (reference.hpp) computes every checksum, over all bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tests/prog/packets/reference.hpp"

namespace lb::test {

using Address = std::array<std::uint8_t, 16>;  ///< IPv4 as ::ffff:a.b.c.d
using Mac = std::array<std::uint8_t, 6>;

struct Endpoint {
  Address address{};
  std::uint16_t port = 0;
  auto operator<=>(const Endpoint&) const = default;
};

/// Source and destination of a packet as it is received.
struct Tuple {
  int family = 4;
  std::uint8_t protocol = 6;  ///< 6, 17 or 132
  Endpoint source;
  Endpoint destination;
  auto operator<=>(const Tuple&) const = default;
  [[nodiscard]] Tuple reversed() const { return {family, protocol, destination, source}; }
};

enum class Sum : std::uint8_t { full, none };

/// The packet's other fields. For SCTP, `flags` select the type of the first chunk as they select TCP's step,
/// `acknowledged` is the verification tag, and `sequence` + 1 is the first word in the chunk, which in an
/// INIT-ACK is the initiate tag.
struct Body {
  std::uint8_t hops = 64;
  std::uint8_t flags = 0x10;  ///< TCP flags
  std::uint32_t sequence = 0;
  std::uint32_t acknowledged = 0;
  std::size_t options = 0;  ///< bytes of IPv4 options, a multiple of 4, or of an IPv6 header, a multiple of 8
  std::size_t padding = 0;  ///< bytes after the IP packet
  Bytes payload{};
  Sum sum = Sum::full;  ///< UDP may have none
};

inline constexpr std::uint8_t fin = 0x01, syn = 0x02, rst = 0x04, psh = 0x08, ack = 0x10;

/// Append the value in network byte order.
void put16(Bytes& bytes, std::size_t value);
void put32(Bytes& bytes, std::uint32_t value);
void put(Bytes& bytes, std::span<const std::uint8_t> more);

[[nodiscard]] Bytes build(const Tuple& tuple, const Body& body);
[[nodiscard]] Tuple tuple_of(const Bytes& packet);
/// The packet with another tuple, a hop limit lower by `hops`, and updated checksums.
[[nodiscard]] Bytes rewritten(Bytes packet, const Tuple& to, std::uint8_t hops);
void set_macs(Bytes& packet, const Mac& source, const Mac& destination);
[[nodiscard]] std::string hex(const Bytes& bytes);

}  // namespace lb::test
