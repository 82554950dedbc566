// An independent reader of packets: where the headers are, and what the checksums must be, computed over
// every byte as RFC 1071 says, and RFC 9260 of SCTP's. Knows nothing of the programs.
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
  std::size_t end = 0;  ///< of the IP packet, or of the datagram that ends before it
  std::uint8_t protocol = 0;
  [[nodiscard]] std::size_t source() const noexcept { return network + (family == 4 ? 12 : 8); }
  [[nodiscard]] std::size_t destination() const noexcept { return source() + width(); }
  [[nodiscard]] std::size_t width() const noexcept { return family == 4 ? 4 : 16; }
  [[nodiscard]] std::size_t hops() const noexcept { return network + (family == 4 ? 8 : 7); }
  [[nodiscard]] std::size_t check() const noexcept {
    return transport + (protocol == 6 ? 16 : protocol == 17 ? 6 : 8);
  }
};

/// Of a whole TCP, UDP or SCTP packet; nothing for any other.
[[nodiscard]] std::optional<Layout> layout_of(std::span<const std::uint8_t> packet);

[[nodiscard]] std::uint16_t read16(std::span<const std::uint8_t> bytes, std::size_t at);
void write16(std::span<std::uint8_t> bytes, std::size_t at, std::uint16_t value);

/// Is the IPv4 packet a part of a larger one? (Of IPv6, layout_of knows whole packets only.)
[[nodiscard]] bool is_fragment(std::span<const std::uint8_t> packet);

/// RFC 1071's checksum of the bytes, after what `before` has summed.
[[nodiscard]] std::uint16_t internet_sum(std::span<const std::uint8_t> bytes, std::uint64_t before = 0);

/// CRC32c, bit by bit (RFC 9260, appendix A).
[[nodiscard]] std::uint32_t crc_of(std::span<const std::uint8_t> bytes);
/// Writes what the transport checksum field must hold, whatever it holds now.
void write_transport_sum(std::span<std::uint8_t> packet, const Layout& layout);
/// What the checksum field of the IPv4 header must hold.
[[nodiscard]] std::uint16_t header_sum(std::span<const std::uint8_t> packet, const Layout& layout);
/// Are all checksums of the packet right? A UDP checksum of zero is none, and right.
[[nodiscard]] bool sums_right(std::span<const std::uint8_t> packet);

}  // namespace lb::test
