// Evaluates nf_tables' expressions one after the other: what they load, compare and decide. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "agent/kube_proxy/served_frontends.hpp"
#include "agent/netlink/nf_dump.hpp"

namespace lb::agent {

/// A part of a packet, or of what the kernel knows of it.
enum class PacketField : std::uint8_t {
  other,
  source,            ///< whole or the first bytes of the address
  destination,       ///< the whole address
  destination_part,  ///< its first bytes
  destination_port,
  protocol,
  device,  ///< by which it came
};

/// Of a `payload` or `meta` expression; AF_INET or AF_INET6.
[[nodiscard]] PacketField loaded_field(const NfExpression& expression, int family);

/// Values that a rule loads, until a `nat` expression takes them.
class NatRegisters {
 public:
  /// An `immediate` expression with a value.
  void load(const NfExpression& immediate);
  /// Where a `nat` expression translates to; nothing where it does not say so by loaded values.
  [[nodiscard]] std::optional<ServedEndpoint> target_of(const NfExpression& nat) const;

 private:
  std::map<std::uint32_t, std::vector<std::byte>> values_;
};

/// A port as packets have it; 0 where there are not two bytes.
[[nodiscard]] std::uint16_t port_of(netlink::Bytes bytes);

}  // namespace lb::agent
