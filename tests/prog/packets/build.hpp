// Builds packets, with every checksum computed over all bytes by the referee.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tests/prog/packets/referee.hpp"

namespace lb::test {

using Address = std::array<std::uint8_t, 16>;  ///< IPv4 as ::ffff:a.b.c.d
using Mac = std::array<std::uint8_t, 6>;

struct Endpoint {
  Address address{};
  std::uint16_t port = 0;
  auto operator<=>(const Endpoint&) const = default;
};

/// As it arrives: the ends of one direction.
struct Tuple {
  int family = 4;
  std::uint8_t protocol = 6;  ///< 6, 17 or 132
  Endpoint source;
  Endpoint destination;
  auto operator<=>(const Tuple&) const = default;
  [[nodiscard]] Tuple reversed() const { return {family, protocol, destination, source}; }
};

enum class Sum : std::uint8_t { full, none };

/// What else is in a packet. Of SCTP: `flags` choose the first chunk as they choose TCP's step,
/// `acknowledged` is the tag, and one more than `sequence` is the first word in the chunk, where an INIT-ACK
/// has the tag to be shown.
struct Body {
  std::uint8_t hops = 64;
  std::uint8_t flags = 0x10;  ///< of TCP
  std::uint32_t sequence = 0;
  std::uint32_t acknowledged = 0;
  std::size_t options = 0;  ///< bytes: of IPv4 a multiple of 4, of IPv6 a header of a multiple of 8
  std::size_t padding = 0;  ///< bytes behind the IP packet
  Bytes payload{};
  Sum sum = Sum::full;  ///< UDP may have none
};

inline constexpr std::uint8_t fin = 0x01, syn = 0x02, rst = 0x04, psh = 0x08, ack = 0x10;

/// Appended in network order.
void put16(Bytes& bytes, std::size_t value);
void put32(Bytes& bytes, std::uint32_t value);
void put(Bytes& bytes, std::span<const std::uint8_t> more);

[[nodiscard]] Bytes build(const Tuple& tuple, const Body& body);
[[nodiscard]] Tuple tuple_of(const Bytes& packet);
/// The packet with another tuple and that many hops less, and the checksums that belong to it.
[[nodiscard]] Bytes rewritten(Bytes packet, const Tuple& to, std::uint8_t hops);
void set_macs(Bytes& packet, const Mac& source, const Mac& destination);
[[nodiscard]] std::string hex(const Bytes& bytes);

}  // namespace lb::test
