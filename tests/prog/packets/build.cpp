// SPDX-License-Identifier: Apache-2.0
// Writes headers byte by byte.
#include "tests/prog/packets/build.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lb::test {

void put16(Bytes& bytes, std::size_t value) {
  bytes.push_back(static_cast<std::uint8_t>(value >> 8 & 0xff));
  bytes.push_back(static_cast<std::uint8_t>(value & 0xff));
}

void put32(Bytes& bytes, std::uint32_t value) {
  put16(bytes, value >> 16);
  put16(bytes, value & 0xffff);
}

void put(Bytes& bytes, std::span<const std::uint8_t> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

namespace {

void put_address(Bytes& bytes, int family, const Address& address) {
  bytes.insert(bytes.end(), address.begin() + (family == 4 ? 12 : 0), address.end());
}

/// The type of the first SCTP chunk that corresponds to these TCP flags.
std::uint8_t chunk_of(std::uint8_t flags) {
  if ((flags & syn) != 0) {
    return (flags & ack) != 0 ? 2 : 1;
  }
  return 0;
}

Bytes transport(const Tuple& tuple, const Body& body) {
  Bytes bytes;
  put16(bytes, tuple.source.port);
  put16(bytes, tuple.destination.port);
  if (tuple.protocol == 132) {
    put32(bytes, body.acknowledged);
    put(bytes, Bytes{0, 0, 0, 0, chunk_of(body.flags), 0});
    put16(bytes, 8 + body.payload.size());
    put32(bytes, body.sequence + 1);
  } else if (tuple.protocol == 17) {
    put16(bytes, 8 + body.payload.size());
    put16(bytes, 0);
  } else {
    put32(bytes, body.sequence);
    put32(bytes, body.acknowledged);
    put(bytes, Bytes{0x50, body.flags, 0x20, 0, 0, 0, 0, 0});
  }
  put(bytes, body.payload);
  return bytes;
}

void put_ipv4(Bytes& packet, const Tuple& tuple, const Body& body, std::size_t length) {
  put(packet, Bytes{8, 0, static_cast<std::uint8_t>(0x45 + (body.options / 4)), 0});
  put16(packet, 20 + body.options + length);
  put(packet, Bytes{0x12, 0x34, 0x40, 0, body.hops, tuple.protocol, 0, 0});
  put_address(packet, 4, tuple.source.address);
  put_address(packet, 4, tuple.destination.address);
  packet.insert(packet.end(), body.options, 1);  // no operation
}

/// Writes a destination options header, padded by PadN, if `options` is not 0.
void put_ipv6(Bytes& packet, const Tuple& tuple, const Body& body, std::size_t length) {
  const std::uint8_t next = body.options != 0 ? 60 : tuple.protocol;
  put(packet, Bytes{0x86, 0xdd, 0x60, 0, 0, 0});
  put16(packet, body.options + length);
  put(packet, Bytes{next, body.hops});
  put_address(packet, 6, tuple.source.address);
  put_address(packet, 6, tuple.destination.address);
  if (body.options == 0) {
    return;
  }
  put(packet, Bytes{tuple.protocol, static_cast<std::uint8_t>((body.options / 8) - 1), 1,
                    static_cast<std::uint8_t>(body.options - 4)});
  packet.insert(packet.end(), body.options - 4, 0);
}

void fix_sums(Bytes& packet, Sum sum) {
  const auto layout = layout_of(packet).value();
  if (layout.family == 4) {
    write16(packet, layout.network + 10, header_sum(packet, layout));
  }
  if (sum == Sum::full) {
    write_transport_sum(packet, layout);
  }
}

Address address_at(const Bytes& packet, const Layout& layout, std::size_t at) {
  Address address{};
  if (layout.family == 4) {
    address[10] = address[11] = 0xff;
  }
  std::copy_n(packet.begin() + static_cast<std::ptrdiff_t>(at), layout.width(),
              address.end() - static_cast<std::ptrdiff_t>(layout.width()));
  return address;
}

void set_address(Bytes& packet, const Layout& layout, std::size_t at, const Address& address) {
  std::copy(address.end() - static_cast<std::ptrdiff_t>(layout.width()), address.end(),
            packet.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace

Bytes build(const Tuple& tuple, const Body& body) {
  const auto inner = transport(tuple, body);
  Bytes packet = {0, 0, 0, 0, 0, 0, 2, 0xff, 0, 0, 0, 1};
  if (tuple.family == 4) {
    put_ipv4(packet, tuple, body, inner.size());
  } else {
    put_ipv6(packet, tuple, body, inner.size());
  }
  put(packet, inner);
  fix_sums(packet, body.sum);
  packet.insert(packet.end(), body.padding, 0xa5);
  return packet;
}

Tuple tuple_of(const Bytes& packet) {
  const auto layout = layout_of(packet).value();
  return {layout.family,
          layout.protocol,
          {address_at(packet, layout, layout.source()), read16(packet, layout.transport)},
          {address_at(packet, layout, layout.destination()), read16(packet, layout.transport + 2)}};
}

Bytes rewritten(Bytes packet, const Tuple& to, std::uint8_t hops) {
  const auto layout = layout_of(packet).value();
  const bool none = layout.protocol == 17 && read16(packet, layout.check()) == 0;
  set_address(packet, layout, layout.source(), to.source.address);
  set_address(packet, layout, layout.destination(), to.destination.address);
  write16(packet, layout.transport, to.source.port);
  write16(packet, layout.transport + 2, to.destination.port);
  packet[layout.hops()] = static_cast<std::uint8_t>(packet[layout.hops()] - hops);
  fix_sums(packet, none ? Sum::none : Sum::full);
  return packet;
}

void set_macs(Bytes& packet, const Mac& source, const Mac& destination) {
  std::ranges::copy(destination, packet.begin());
  std::ranges::copy(source, packet.begin() + 6);
}

std::string hex(const Bytes& bytes) { return fmt::format("{:02x}", fmt::join(bytes, "")); }

}  // namespace lb::test
