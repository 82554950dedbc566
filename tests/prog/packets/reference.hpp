// SPDX-License-Identifier: Apache-2.0
// An independent reader of packets: finds the headers, and computes the checksums over every byte as in RFC
// 1071, and for SCTP as in RFC 9260. Shares no code with the programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tests/prog/lib/harness.hpp"

namespace lb::test {

/// Offsets are in bytes from the start of the Ethernet frame.
struct Layout {
  int family = 0;  ///< 4 or 6
  std::size_t network = 0;
  std::size_t transport = 0;
  std::size_t end = 0;  ///< end of the IP packet, or of a datagram that is shorter
  std::uint8_t protocol = 0;
  [[nodiscard]] std::size_t source() const noexcept { return network + (family == 4 ? 12 : 8); }
  [[nodiscard]] std::size_t destination() const noexcept { return source() + width(); }
  [[nodiscard]] std::size_t width() const noexcept { return family == 4 ? 4 : 16; }
  [[nodiscard]] std::size_t hops() const noexcept { return network + (family == 4 ? 8 : 7); }
  [[nodiscard]] std::size_t check() const noexcept {
    return transport + (protocol == 6 ? 16 : protocol == 17 ? 6 : 8);
  }
};

/// The layout of a whole TCP, UDP or SCTP packet; nullopt for any other packet.
[[nodiscard]] std::optional<Layout> layout_of(std::span<const std::uint8_t> packet);

[[nodiscard]] std::uint16_t read16(std::span<const std::uint8_t> bytes, std::size_t at);
void write16(std::span<std::uint8_t> bytes, std::size_t at, std::uint16_t value);

/// Whether an IPv4 packet is a fragment. (For IPv6, layout_of() accepts whole packets only.)
[[nodiscard]] bool is_fragment(std::span<const std::uint8_t> packet);

/// RFC 1071's checksum of the bytes, added to the sum `before`.
[[nodiscard]] std::uint16_t internet_sum(std::span<const std::uint8_t> bytes, std::uint64_t before = 0);

/// CRC32c, bit by bit (RFC 9260, appendix A).
[[nodiscard]] std::uint32_t crc_of(std::span<const std::uint8_t> bytes);
/// Writes the correct transport checksum, whatever the field holds.
void write_transport_sum(std::span<std::uint8_t> packet, const Layout& layout);
/// The correct checksum of the IPv4 header.
[[nodiscard]] std::uint16_t header_sum(std::span<const std::uint8_t> packet, const Layout& layout);
/// Whether all checksums of the packet are correct. A UDP checksum of zero means none, and is correct.
[[nodiscard]] bool sums_right(std::span<const std::uint8_t> packet);

}  // namespace lb::test
