#include "agent/kube_proxy/nf_rule_reader.hpp"

#include <endian.h>
#include <linux/netfilter/nf_tables.h>
#include <sys/socket.h>

namespace lb::agent {
namespace {

using netlink::attribute;
using netlink::Bytes;
using netlink::read;

std::uint32_t number(Bytes data, unsigned short type) {
  return be32toh(read<std::uint32_t>(attribute(data, type)).value_or(0));
}

/// Offsets of the addresses in an IP header.
struct Header {
  std::uint32_t source;
  std::uint32_t destination;
  std::uint32_t size;  ///< of an address
};

Header header_of(int family) { return family == AF_INET ? Header{12, 16, 4} : Header{8, 24, 16}; }

PacketField network_field(std::uint32_t offset, std::uint32_t size, int family) {
  const auto header = header_of(family);
  if (offset == header.source) return PacketField::source;
  if (offset != header.destination) return PacketField::other;
  return size == header.size ? PacketField::destination : PacketField::destination_part;
}

PacketField payload_field(Bytes data, int family) {
  const auto base = number(data, NFTA_PAYLOAD_BASE);
  const auto offset = number(data, NFTA_PAYLOAD_OFFSET);
  const auto size = number(data, NFTA_PAYLOAD_LEN);
  if (base == NFT_PAYLOAD_NETWORK_HEADER) return network_field(offset, size, family);
  const bool port = base == NFT_PAYLOAD_TRANSPORT_HEADER && offset == 2 && size == 2;
  return port ? PacketField::destination_port : PacketField::other;
}

PacketField meta_field(Bytes data) {
  switch (number(data, NFTA_META_KEY)) {
    case NFT_META_L4PROTO:
      return PacketField::protocol;
    case NFT_META_IIF:
    case NFT_META_IIFNAME:
    case NFT_META_IIFGROUP:
    case NFT_META_IIFTYPE:
    case NFT_META_BRI_IIFNAME:
      return PacketField::device;
    default:
      return PacketField::other;
  }
}

}  // namespace

PacketField loaded_field(const NfExpression& expression, int family) {
  if (expression.name == "payload") return payload_field(expression.data, family);
  return expression.name == "meta" ? meta_field(expression.data) : PacketField::other;
}

void NatRegisters::load(const NfExpression& immediate) {
  const auto value = attribute(attribute(immediate.data, NFTA_IMMEDIATE_DATA), NFTA_DATA_VALUE);
  values_[number(immediate.data, NFTA_IMMEDIATE_DREG)] = {value.begin(), value.end()};
}

std::optional<ServedEndpoint> NatRegisters::target_of(const NfExpression& nat) const {
  if (number(nat.data, NFTA_NAT_TYPE) != NFT_NAT_DNAT) return std::nullopt;
  const auto address = values_.find(number(nat.data, NFTA_NAT_REG_ADDR_MIN));
  const auto port = values_.find(number(nat.data, NFTA_NAT_REG_PROTO_MIN));
  if (address == values_.end() || port == values_.end()) return std::nullopt;
  const auto target = address_of(address->second.data(), address->second.size());
  if (!target) return std::nullopt;
  return ServedEndpoint{*target, port_of(port->second)};
}

std::uint16_t port_of(Bytes bytes) { return be16toh(read<std::uint16_t>(bytes).value_or(0)); }

}  // namespace lb::agent
