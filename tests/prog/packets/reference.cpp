// SPDX-License-Identifier: Apache-2.0
// Reads headers byte by byte and computes checksums over all bytes.
#include "tests/prog/packets/reference.hpp"

#include <algorithm>

namespace lb::test {
namespace {

/// One's complement sum of 16-bit words; a last odd byte is the upper half of a word.
std::uint64_t add(std::uint64_t sum, std::span<const std::uint8_t> bytes) {
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    sum += at % 2 == 0 ? static_cast<std::uint64_t>(bytes[at]) << 8 : bytes[at];
  }
  return sum;
}

std::uint16_t fold(std::uint64_t sum) {
  while (sum > 0xffff) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<std::uint16_t>(~sum & 0xffff);
}

/// The minimum length of the transport header; 0 for other protocols.
std::size_t header_of(std::uint8_t protocol) {
  switch (protocol) {
    case 6:
      return 20;
    case 17:
      return 8;
    case 132:
      return 12;
    default:
      return 0;
  }
}

bool is_extension(std::uint8_t header) { return header == 0 || header == 43 || header == 60; }

std::optional<Layout> layout4(std::span<const std::uint8_t> packet) {
  if (packet.size() < 34) {
    return std::nullopt;
  }
  Layout layout{.family = 4, .network = 14, .protocol = packet[23]};
  layout.transport = 14U + (4U * (packet[14] & 15U));
  layout.end = 14U + read16(packet, 16);
  return layout;
}

std::optional<Layout> layout6(std::span<const std::uint8_t> packet) {
  if (packet.size() < 54) {
    return std::nullopt;
  }
  Layout layout{.family = 6, .network = 14, .transport = 54, .protocol = packet[20]};
  layout.end = 54U + read16(packet, 18);
  while (is_extension(layout.protocol) && layout.transport + 8 <= packet.size()) {
    layout.protocol = packet[layout.transport];
    layout.transport += 8U + (8U * packet[layout.transport + 1]);
  }
  return layout;
}

}  // namespace

std::uint16_t read16(std::span<const std::uint8_t> bytes, std::size_t at) {
  return static_cast<std::uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

void write16(std::span<std::uint8_t> bytes, std::size_t at, std::uint16_t value) {
  bytes[at] = static_cast<std::uint8_t>(value >> 8);
  bytes[at + 1] = static_cast<std::uint8_t>(value & 0xff);
}

std::optional<Layout> layout_of(std::span<const std::uint8_t> packet) {
  if (packet.size() < 14) {
    return std::nullopt;
  }
  const auto type = read16(packet, 12);
  auto layout = type == 0x0800 ? layout4(packet) : type == 0x86dd ? layout6(packet) : std::nullopt;
  if (!layout || layout->end > packet.size()) {
    return std::nullopt;
  }
  const auto header = header_of(layout->protocol);
  if (header == 0 || layout->transport + header > layout->end) {
    return std::nullopt;
  }
  const std::size_t datagram = layout->protocol == 17 ? read16(packet, layout->transport + 4) : 0;
  if (datagram >= header) {
    layout->end = std::min(layout->end, layout->transport + datagram);
  }
  return layout;
}

bool is_fragment(std::span<const std::uint8_t> packet) {
  return read16(packet, 12) == 0x0800 && (read16(packet, 20) & 0x3fff) != 0;
}

std::uint16_t internet_sum(std::span<const std::uint8_t> bytes, std::uint64_t before) {
  return fold(add(before, bytes));
}

std::uint32_t crc_of(std::span<const std::uint8_t> bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const auto byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ (0x82f63b78U & (0U - (crc & 1)));
    }
  }
  return ~crc;
}

void write_transport_sum(std::span<std::uint8_t> packet, const Layout& layout) {
  const auto length = layout.end - layout.transport;
  const auto transport = packet.subspan(layout.transport, length);
  if (layout.protocol == 132) {
    const auto field = packet.subspan(layout.check(), 4);
    std::ranges::fill(field, 0);
    const auto crc = crc_of(transport);
    for (std::size_t at = 0; at < 4; ++at) {
      field[at] = static_cast<std::uint8_t>(crc >> 8 * at);
    }
    return;
  }
  write16(packet, layout.check(), 0);
  auto sum = add(0, packet.subspan(layout.source(), 2 * layout.width()));
  sum += layout.protocol + length;
  const auto check = fold(add(sum, transport));
  write16(packet, layout.check(), layout.protocol == 17 && check == 0 ? 0xffff : check);
}

std::uint16_t header_sum(std::span<const std::uint8_t> packet, const Layout& layout) {
  const auto header = packet.subspan(layout.network, layout.transport - layout.network);
  return fold(add(0, header) - read16(header, 10));
}

bool sums_right(std::span<const std::uint8_t> packet) {
  const auto layout = layout_of(packet);
  if (!layout) {
    return false;
  }
  if (layout->family == 4 && read16(packet, layout->network + 10) != header_sum(packet, *layout)) {
    return false;
  }
  if (layout->protocol == 17 && read16(packet, layout->check()) == 0) {
    return true;
  }
  Bytes right(packet.begin(), packet.end());
  write_transport_sum(right, *layout);
  return std::ranges::equal(right, packet);
}

}  // namespace lb::test
