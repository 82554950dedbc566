// SPDX-License-Identifier: Apache-2.0
// Formats values of map entries.
#include "maps/text.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace lb::maps {
namespace {

constexpr std::string_view unknown = "?";

template <std::size_t Size>
std::string_view pick(const std::array<std::string_view, Size>& words, unsigned value) noexcept {
  return value < Size ? words.at(value) : unknown;
}

std::string inet_text(int family, const std::uint8_t* bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, bytes, text.data(), text.size());
  return text.data();
}

bool is_ipv4(std::span<const std::uint8_t, 16> address) noexcept {
  constexpr std::array<std::uint8_t, 12> prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(prefix.begin(), prefix.end(), address.begin());
}

}  // namespace

std::string_view word(lb_protocol protocol) noexcept {
  switch (protocol) {
    case LB_ANY_PROTOCOL:
      return "any";
    case LB_TCP:
      return "TCP";
    case LB_UDP:
      return "UDP";
    case LB_SCTP:
      return "SCTP";
  }
  return unknown;
}

std::string_view word(lb_family family) noexcept {
  switch (family) {
    case LB_NO_FAMILY:
      return "none";
    case LB_IPV4:
      return "IPv4";
    case LB_IPV6:
      return "IPv6";
  }
  return unknown;
}

std::string_view word(lb_kind kind) noexcept {
  return pick(
      std::to_array<std::string_view>({"none", "ClusterIP", "NodePort", "ExternalIP", "LoadBalancer"}), kind);
}

std::string_view word(lb_address_kind kind) noexcept {
  return pick(std::to_array<std::string_view>({"none", "node-address", "node-port-address",
                                               "loopback-address", "cluster-address", "service-address"}),
              kind);
}

std::string_view word(lb_scope scope) noexcept {
  return pick(std::to_array<std::string_view>({"cluster", "local"}), scope);
}

std::string_view word(lb_verdict verdict) noexcept {
  return pick(std::to_array<std::string_view>({"reject", "drop"}), verdict);
}

std::string_view word(lb_locality locality) noexcept {
  return pick(std::to_array<std::string_view>({"elsewhere", "same-zone", "same-node", "same-node-by-uplink"}),
              locality);
}

std::string_view word(lb_side side) noexcept {
  return pick(std::to_array<std::string_view>(
                  {"none", "uplink-ingress", "uplink-egress", "pod-ingress", "pod-egress"}),
              side);
}

std::string_view word(lb_direction direction) noexcept {
  return pick(std::to_array<std::string_view>({"forward", "reply"}), direction);
}

std::string_view word(lb_path way) noexcept {
  return pick(std::to_array<std::string_view>({"stack", "redirect"}), way);
}

std::string_view word(lb_state state) noexcept {
  return pick(std::to_array<std::string_view>({"opening", "answered", "open", "closing", "reset"}), state);
}

std::string address_text(std::span<const std::uint8_t, 16> address) {
  if (is_ipv4(address)) {
    return inet_text(AF_INET, address.data() + 12);
  }
  return inet_text(AF_INET6, address.data());
}

std::string address_text(std::span<const std::uint8_t, 4> address) {
  return inet_text(AF_INET, address.data());
}

std::string socket_text(std::span<const std::uint8_t, 16> address, std::uint16_t port) {
  if (is_ipv4(address)) {
    return fmt::format("{}:{}", address_text(address), port);
  }
  return fmt::format("[{}]:{}", address_text(address), port);
}

std::string socket_text(std::span<const std::uint8_t, 4> address, std::uint16_t port) {
  return fmt::format("{}:{}", address_text(address), port);
}

std::string_view stored_text(std::span<const char> text) noexcept {
  const auto end = std::find(text.begin(), text.end(), '\0');
  return {text.data(), static_cast<std::size_t>(std::distance(text.begin(), end))};
}

}  // namespace lb::maps
