// SPDX-License-Identifier: Apache-2.0
#include "agent/kube_proxy/nf_rule_reader.hpp"

#include <endian.h>
#include <fmt/format.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

namespace lb::agent {
namespace {

using netlink::attribute;
using netlink::Bytes;
using netlink::read;

constexpr std::size_t max_size = 64;      // of what an expression loads: the kernel's register file
constexpr std::uint32_t port_offset = 2;  // of the destination port in a transport header
constexpr std::size_t number_size = 4;

std::uint32_t number(Bytes data, unsigned short type) {
  return be32toh(read<std::uint32_t>(attribute(data, type)).value_or(0));
}

/// Offsets in an IP header.
struct Header {
  std::uint32_t source;
  std::uint32_t destination;
  std::uint32_t address_size;
  std::uint32_t protocol;
};

Header header_of(int family) { return family == AF_INET ? Header{12, 16, 4, 9} : Header{8, 24, 16, 6}; }

/// The position of a register's first byte: of four registers of 16 bytes, or of those of 4 bytes on the same
/// memory.
std::size_t position_of(std::uint32_t number) {
  if (number >= NFT_REG32_00) {
    return std::size_t{number - NFT_REG32_00} * 4;
  }
  return number >= NFT_REG_1 ? std::size_t{number - NFT_REG_1} * 16 : max_size;
}

bool is_within(std::uint32_t offset, std::uint32_t first, std::uint32_t size) {
  return offset >= first && offset < first + size;
}

bool is_device(std::uint32_t key) {
  return key == NFT_META_IIF || key == NFT_META_IIFNAME || key == NFT_META_IIFGROUP ||
         key == NFT_META_IIFTYPE || key == NFT_META_BRI_IIFNAME;
}

Bytes value_in(Bytes data, unsigned short type) { return attribute(attribute(data, type), NFTA_DATA_VALUE); }

}  // namespace

bool NfRuleReader::take(const NfExpression& each) {
  if (each.name == "payload") {
    load_payload(each.data);
  } else if (each.name == "meta") {
    load_meta(each.data);
  } else if (each.name == "fib") {
    load_fib(each.data);
  } else if (each.name == "bitwise") {
    mask(each.data);
  } else if (each.name == "cmp") {
    compare(each.data);
  } else if (each.name == "immediate" && !verdict_of(attribute(each.data, NFTA_IMMEDIATE_DATA))) {
    load_constant(each.data);
  } else {
    return false;
  }
  return true;
}

NfRuleReader::Origin NfRuleReader::at(std::size_t position) const {
  const auto found = registers_.find(position);
  return found == registers_.end() ? Origin{} : found->second;
}

/// Loads `size` bytes, each from the offset after that of the byte before it.
void NfRuleReader::load(Bytes data, unsigned short target, std::size_t size, Origin first) {
  const auto position = position_of(number(data, target));
  for (std::size_t index = 0; index < std::min(size, max_size); ++index) {
    registers_[position + index] = first;
    ++first.offset;
  }
}

void NfRuleReader::load_payload(Bytes data) {
  const auto base = number(data, NFTA_PAYLOAD_BASE);
  const auto source = base == NFT_PAYLOAD_NETWORK_HEADER     ? Source::network
                      : base == NFT_PAYLOAD_TRANSPORT_HEADER ? Source::transport
                                                             : Source::unknown;
  load(data, NFTA_PAYLOAD_DREG, number(data, NFTA_PAYLOAD_LEN), {source, number(data, NFTA_PAYLOAD_OFFSET)});
}

void NfRuleReader::load_meta(Bytes data) {
  const auto key = number(data, NFTA_META_KEY);
  if (key == NFT_META_L4PROTO) {
    load(data, NFTA_META_DREG, 1, {Source::protocol});
  } else {
    // A name of a device takes a whole register.
    load(data, NFTA_META_DREG, 16, {is_device(key) ? Source::device : Source::unknown});
  }
}

void NfRuleReader::load_fib(Bytes data) {
  const auto flags = number(data, NFTA_FIB_FLAGS);
  const bool type = number(data, NFTA_FIB_RESULT) == NFT_FIB_RESULT_ADDRTYPE;
  const auto source = !type                             ? Source::unknown
                      : (flags & NFTA_FIB_F_SADDR) != 0 ? Source::source_type
                                                        : Source::destination_type;
  load(data, NFTA_FIB_DREG, number_size, {Source::zero});
  load(data, NFTA_FIB_DREG, type ? 1 : number_size, {source});
}

void NfRuleReader::load_constant(Bytes data) {
  auto position = position_of(number(data, NFTA_IMMEDIATE_DREG));
  for (const auto each : value_in(data, NFTA_IMMEDIATE_DATA)) {
    registers_[position++] = {Source::constant, 0, std::byte{0xff}, each};
  }
}

void NfRuleReader::mask(Bytes data) {
  const auto from = position_of(number(data, NFTA_BITWISE_SREG));
  const auto into = position_of(number(data, NFTA_BITWISE_DREG));
  const auto mask = value_in(data, NFTA_BITWISE_MASK);
  const auto flip = value_in(data, NFTA_BITWISE_XOR);
  const std::size_t size = std::min<std::size_t>(number(data, NFTA_BITWISE_LEN), max_size);
  for (std::size_t index = 0; index < size; ++index) {
    auto origin = at(from + index);
    const bool masks = index < mask.size() && index < flip.size() && flip[index] == std::byte{};
    if (masks) {
      origin.mask &= mask[index];
    } else {
      origin = {};  // flips or shifts
    }
    registers_[into + index] = origin;
  }
}

void NfRuleReader::compare(Bytes data) {
  const bool equal = number(data, NFTA_CMP_OP) == NFT_CMP_EQ;
  auto position = position_of(number(data, NFTA_CMP_SREG));
  for (const auto each : value_in(data, NFTA_CMP_DATA)) {
    compare_byte(at(position++), each, equal);
  }
}

void NfRuleReader::compare_byte(const Origin& origin, std::byte value, bool equal) {
  switch (origin.source) {
    case Source::network:
    case Source::transport:
      return compare_header_byte(origin, value, equal);
    case Source::protocol:
      if (!equal) {
        conditions_.not_understood("a protocol that is excluded");
      }
      conditions_.protocol = static_cast<lb_protocol>(value);
      return;
    case Source::device:
      conditions_.clients = RuleClients::inside;
      return;
    case Source::source_type:
    case Source::destination_type:
      if (!equal || value != std::byte{RTN_LOCAL}) {
        conditions_.not_understood("a type of address");
      }
      if (origin.source == Source::source_type) {
        conditions_.clients = RuleClients::inside;
      }
      return;
    case Source::zero:
      return;
    case Source::constant:
    case Source::unknown:
      return conditions_.not_understood("a comparison");
  }
}

void NfRuleReader::compare_header_byte(const Origin& origin, std::byte value, bool equal) {
  const auto header = header_of(family_);
  if (origin.source == Source::transport) {
    if (!is_within(origin.offset, port_offset, 2)) {
      return conditions_.not_understood(fmt::format("byte {} of the transport header", origin.offset));
    }
    if (!equal) {
      return conditions_.not_understood("a port that is excluded, or a range of ports");
    }
    port_[origin.offset] = {origin.mask, value};
  } else if (is_within(origin.offset, header.source, header.address_size)) {
    conditions_.clients = RuleClients::inside;
    if (!equal) {
      conditions_.not_understood("clients that are excluded");
    }
  } else if (is_within(origin.offset, header.destination, header.address_size)) {
    // Addresses that are excluded are a range.
    destination_[origin.offset] = {equal ? origin.mask : std::byte{}, value};
  } else if (origin.offset == header.protocol) {
    compare_byte({Source::protocol}, value, equal);
  } else {
    conditions_.not_understood(fmt::format("byte {} of the IP header", origin.offset));
  }
}

PacketConditions NfRuleReader::conditions() const {
  auto conditions = conditions_;
  take_destination(conditions);
  take_port(conditions);
  return conditions;
}

void NfRuleReader::take_destination(PacketConditions& conditions) const {
  using Destination = PacketConditions::Destination;
  if (destination_.empty()) {
    return;
  }
  std::vector<std::byte> bytes;
  bool whole = destination_.size() == header_of(family_).address_size;
  for (const auto& [offset, wanted] : destination_) {
    whole = whole && wanted.mask == std::byte{0xff};
    bytes.push_back(wanted.value);
  }
  const auto address = address_of(bytes.data(), bytes.size());
  conditions.match = whole && address ? Destination::address : Destination::range;
  if (address) {
    conditions.destination = *address;
  }
}

void NfRuleReader::take_port(PacketConditions& conditions) const {
  if (port_.empty()) {
    return;
  }
  const auto high = port_.find(port_offset);
  const auto low = port_.find(port_offset + 1);
  const bool whole = high != port_.end() && low != port_.end() && high->second.mask == std::byte{0xff} &&
                     low->second.mask == std::byte{0xff};
  if (!whole) {
    return conditions.not_understood("a part of a port");
  }
  const auto port =
      std::to_integer<unsigned>(high->second.value) << 8U | std::to_integer<unsigned>(low->second.value);
  conditions.ports = {static_cast<std::uint16_t>(port)};
}

std::optional<ServedEndpoint> NfRuleReader::target_of(const NfExpression& nat) const {
  if (number(nat.data, NFTA_NAT_TYPE) != NFT_NAT_DNAT) {
    return std::nullopt;
  }
  const auto constant = [&](unsigned short attribute, std::size_t size) {
    std::vector<std::byte> bytes;
    const auto position = position_of(number(nat.data, attribute));
    for (std::size_t index = 0; index < size && at(position + index).source == Source::constant; ++index) {
      bytes.push_back(at(position + index).value);
    }
    return bytes;
  };
  const auto address = constant(NFTA_NAT_REG_ADDR_MIN, header_of(family_).address_size);
  const auto port = constant(NFTA_NAT_REG_PROTO_MIN, sizeof(std::uint16_t));
  const auto target = address_of(address.data(), address.size());
  if (!target || port.size() != sizeof(std::uint16_t)) {
    return std::nullopt;
  }
  return ServedEndpoint{*target, port_of(port)};
}

std::uint16_t port_of(Bytes bytes) { return be16toh(read<std::uint16_t>(bytes).value_or(0)); }

}  // namespace lb::agent
