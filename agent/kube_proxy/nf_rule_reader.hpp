// Evaluates nf_tables expressions in order: which fields they load, compare and translate. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "agent/kube_proxy/served_frontends.hpp"
#include "agent/netlink/nf_dump.hpp"

namespace lb::agent {

/// A part of a packet or of its metadata.
enum class PacketField : std::uint8_t {
  other,
  source,            ///< the address or its first bytes
  destination,       ///< the whole address
  destination_part,  ///< the first bytes of the address
  destination_port,
  protocol,
  device,  ///< input device
};

/// The field that a `payload` or `meta` expression loads; `family`: AF_INET or AF_INET6.
[[nodiscard]] PacketField loaded_field(const NfExpression& expression, int family);

/// Values in a rule's registers, for `nat` expressions.
class NatRegisters {
 public:
  /// Executes an `immediate` expression with a value.
  void load(const NfExpression& immediate);
  /// The target of a `nat` expression; nullopt if it does not use loaded values.
  [[nodiscard]] std::optional<ServedEndpoint> target_of(const NfExpression& nat) const;

 private:
  std::map<std::uint32_t, std::vector<std::byte>> values_;
};

/// Converts a port from network byte order; 0 unless there are two bytes.
[[nodiscard]] std::uint16_t port_of(netlink::Bytes bytes);

}  // namespace lb::agent
