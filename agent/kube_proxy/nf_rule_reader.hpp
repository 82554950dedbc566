// SPDX-License-Identifier: Apache-2.0
// Evaluates the nf_tables expressions of a rule: which parts of a packet they compare with what, and where
// they translate it. Different versions of iptables and nft write the same rule in different order, load a
// field from the packet or from its metadata, and a field in parts or several at once; so every byte of a
// register is traced to the byte of the packet that it came from. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "agent/kube_proxy/packet_conditions.hpp"
#include "agent/netlink/nf_dump.hpp"

namespace lb::agent {

class NfRuleReader {
 public:
  /// `family`: AF_INET or AF_INET6.
  explicit NfRuleReader(int family) : family_(family) {}

  /// Takes an expression that loads, changes or compares registers, and an `immediate` with a value. False if
  /// it is another one.
  bool take(const NfExpression& each);

  [[nodiscard]] PacketConditions conditions() const;
  /// The target of a `nat` expression; nullopt if it does not use loaded values.
  [[nodiscard]] std::optional<ServedEndpoint> target_of(const NfExpression& nat) const;

 private:
  /// What a byte of a register holds.
  enum class Source : std::uint8_t {
    unknown,
    network,      ///< a byte of the IP header
    transport,    ///< a byte of the header behind it
    protocol,     ///< the protocol behind the IP header
    device,       ///< of the input device
    source_type,  ///< whose address the source is, the first byte of a number
    destination_type,
    zero,  ///< the other bytes of such a number
    constant,
  };
  struct Origin {
    Source source = Source::unknown;
    std::uint32_t offset = 0;
    std::byte mask{0xff};
    std::byte value{};  ///< of a constant
  };
  struct Wanted {
    std::byte mask{};
    std::byte value{};
  };

  void load(netlink::Bytes data, unsigned short target, std::size_t size, Origin first);
  void load_payload(netlink::Bytes data);
  void load_meta(netlink::Bytes data);
  void load_fib(netlink::Bytes data);
  void load_constant(netlink::Bytes data);
  void mask(netlink::Bytes data);
  void compare(netlink::Bytes data);
  void compare_byte(const Origin& origin, std::byte value, bool equal);
  void compare_header_byte(const Origin& origin, std::byte value, bool equal);
  void take_destination(PacketConditions& conditions) const;
  void take_port(PacketConditions& conditions) const;

  [[nodiscard]] Origin at(std::size_t position) const;

  int family_;
  PacketConditions conditions_;
  std::map<std::size_t, Origin> registers_;  ///< by the position of the byte in the register file
  std::map<std::uint32_t, Wanted> destination_;
  std::map<std::uint32_t, Wanted> port_;
};

/// Converts a port from network byte order; 0 unless there are two bytes.
[[nodiscard]] std::uint16_t port_of(netlink::Bytes bytes);

}  // namespace lb::agent
