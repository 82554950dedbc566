// SPDX-License-Identifier: Apache-2.0
#include "tests/prog/packets/decode.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "maps/text.hpp"
#include "tests/prog/packets/reference.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t ipv4_type = 0x0800;
constexpr std::uint16_t ipv6_type = 0x86dd;
constexpr std::uint16_t vlan_type = 0x8100;
constexpr std::uint16_t qinq_type = 0x88a8;

/// Reads headers from the front of a packet, and records their fields.
class Decoder {
 public:
  explicit Decoder(std::span<const std::uint8_t> packet) : rest_(packet) {}

  Fields decode() {
    ethernet();
    if (!rest_.empty()) {
      add("payload", hex_of(rest_));
    }
    return std::move(fields_);
  }

 private:
  static std::string hex_of(std::span<const std::uint8_t> bytes) {
    return fmt::format("{:02x}", fmt::join(bytes, ""));
  }

  void add(const std::string& name, std::string value) {
    fields_.emplace_back(prefix_ + name, std::move(value));
  }
  void add16(const char* name, std::size_t at) { add(name, fmt::format("{:#06x}", read16(rest_, at))); }
  void add_port(const char* name, std::size_t at) { add(name, fmt::format("{}", read16(rest_, at))); }
  void add32(const char* name, std::size_t at) {
    add(name, fmt::format("{}", std::uint32_t{read16(rest_, at)} << 16U | read16(rest_, at + 2)));
  }

  /// Whether that many bytes are left; if not, records that the packet is cut off, and stops decoding.
  bool has(std::size_t bytes) {
    if (rest_.size() >= bytes) {
      return true;
    }
    if (!rest_.empty()) {
      add("cut off", hex_of(rest_));
    }
    rest_ = {};
    return false;
  }

  void skip(std::size_t bytes) { rest_ = rest_.subspan(std::min(bytes, rest_.size())); }

  void ethernet() {
    if (!has(14)) {
      return;
    }
    add("Ethernet destination", fmt::format("{:02x}", fmt::join(rest_.first(6), ":")));
    add("Ethernet source", fmt::format("{:02x}", fmt::join(rest_.subspan(6, 6), ":")));
    auto type = read16(rest_, 12);
    skip(14);
    while ((type == vlan_type || type == qinq_type) && has(4)) {
      add16("VLAN tag", 0);
      type = read16(rest_, 2);
      skip(4);
    }
    add("Ethernet type", fmt::format("{:#06x}", type));
    if (type == ipv4_type) {
      ipv4();
    }
    if (type == ipv6_type) {
      ipv6();
    }
  }

  void ipv4() {
    if (!has(20)) {
      return;
    }
    const std::size_t length = std::size_t{rest_[0] & 0x0fU} * 4;
    if (!has(length)) {
      return;
    }
    add("IPv4 tos", fmt::format("{:#04x}", rest_[1]));
    add("IPv4 length", fmt::format("{}", read16(rest_, 2)));
    add16("IPv4 id", 4);
    add16("IPv4 flags and offset", 6);
    add("IPv4 ttl", fmt::format("{}", rest_[8]));
    add16("IPv4 checksum", 10);
    add("IPv4 source", maps::address_text(rest_.subspan<12, 4>()));
    add("IPv4 destination", maps::address_text(rest_.subspan<16, 4>()));
    if (length > 20) {
      add("IPv4 options", hex_of(rest_.subspan(20, length - 20)));
    }
    const bool later = (read16(rest_, 6) & 0x1fffU) != 0;
    const auto protocol = rest_[9];
    skip(length);
    transport(protocol, later);
  }

  void ipv6() {
    if (!has(40)) {
      return;
    }
    add("IPv6 class and label",
        fmt::format("{:#x}", std::uint32_t{read16(rest_, 0)} << 16U | read16(rest_, 2)));
    add("IPv6 length", fmt::format("{}", read16(rest_, 4)));
    add("IPv6 hop limit", fmt::format("{}", rest_[7]));
    add("IPv6 source", maps::address_text(rest_.subspan<8, 16>()));
    add("IPv6 destination", maps::address_text(rest_.subspan<24, 16>()));
    auto next = rest_[6];
    skip(40);
    bool later = false;
    while (is_extension(next) && has(8)) {
      const std::size_t length = next == 44 ? 8 : std::size_t{rest_[1]} * 8 + 8;
      later = later || (next == 44 && (read16(rest_, 2) & 0xfff8U) != 0);
      add(fmt::format("IPv6 extension {}", next), hex_of(rest_.first(std::min(length, rest_.size()))));
      next = rest_[0];
      skip(length);
    }
    transport(next, later);
  }

  /// Whether it is a hop-by-hop, routing, fragment or destination options header.
  static bool is_extension(std::uint8_t next) { return next == 0 || next == 43 || next == 44 || next == 60; }

  void transport(std::uint8_t protocol, bool later_fragment) {
    add("IP protocol", fmt::format("{}", protocol));
    if (later_fragment) {
      return;
    }
    if (protocol == 6) {
      tcp();
    }
    if (protocol == 17) {
      udp();
    }
    if (protocol == 132) {
      sctp();
    }
    if (protocol == 1 || protocol == 58) {
      icmp(protocol == 1);
    }
  }

  void tcp() {
    if (!has(20)) {
      return;
    }
    add_port("TCP source port", 0);
    add_port("TCP destination port", 2);
    add32("TCP sequence", 4);
    add32("TCP acknowledgement", 8);
    add("TCP flags", flags_of(rest_[13]));
    add_port("TCP window", 14);
    add16("TCP checksum", 16);
    const std::size_t length = std::size_t{rest_[12]} / 16 * 4;
    if (length > 20 && has(length)) {
      add("TCP options", hex_of(rest_.subspan(20, length - 20)));
    }
    skip(std::max<std::size_t>(length, 20));
  }

  static std::string flags_of(std::uint8_t bits) {
    static constexpr std::array<const char*, 8> names = {"FIN", "SYN", "RST", "PSH",
                                                         "ACK", "URG", "ECE", "CWR"};
    std::string text;
    for (std::size_t bit = 0; bit < names.size(); ++bit) {
      if ((bits >> bit & 1U) != 0) {
        text += (text.empty() ? "" : " ") + std::string(names.at(bit));
      }
    }
    return text;
  }

  void udp() {
    if (!has(8)) {
      return;
    }
    add_port("UDP source port", 0);
    add_port("UDP destination port", 2);
    add_port("UDP length", 4);
    add16("UDP checksum", 6);
    skip(8);
  }

  void sctp() {
    if (!has(12)) {
      return;
    }
    add_port("SCTP source port", 0);
    add_port("SCTP destination port", 2);
    add32("SCTP tag", 4);
    add("SCTP checksum", hex_of(rest_.subspan(8, 4)));
    skip(12);
  }

  /// Decodes an ICMP message; an error's quoted packet is decoded, other content is payload.
  void icmp(bool v4) {
    if (!has(8)) {
      return;
    }
    const auto type = rest_[0];
    add("ICMP type and code", fmt::format("{} {}", type, rest_[1]));
    add16("ICMP checksum", 2);
    add32("ICMP rest", 4);
    skip(8);
    const bool error = v4 ? type == 3 || type == 11 || type == 12 : type < 128;
    if (!error || rest_.empty()) {
      return;
    }
    prefix_ += "quoted ";
    if (v4) {
      ipv4();
    } else {
      ipv6();
    }
  }

  std::span<const std::uint8_t> rest_;
  std::string prefix_;
  Fields fields_;
};

}  // namespace

Fields fields_of(std::span<const std::uint8_t> packet) { return Decoder(packet).decode(); }

std::string compare_packets(const Bytes& expected, const Bytes& came) {
  const auto left = fields_of(expected);
  const auto right = fields_of(came);
  std::string text;
  for (std::size_t at = 0; at < std::max(left.size(), right.size()); ++at) {
    const auto* one = at < left.size() ? &left[at] : nullptr;
    const auto* other = at < right.size() ? &right[at] : nullptr;
    if (one && other && *one == *other) {
      text += fmt::format("    {}: {}\n", one->first, one->second);
      continue;
    }
    if (one) {
      text += fmt::format("  - {}: {}\n", one->first, one->second);
    }
    if (other) {
      text += fmt::format("  + {}: {}\n", other->first, other->second);
    }
  }
  return text;
}

}  // namespace lb::test
