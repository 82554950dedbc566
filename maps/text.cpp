// One canonical line per map entry.
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

template <class Key, class Flow>
std::string flow_text(const Key& key, const Flow& flow, std::string_view source,
                      std::string_view destination) {
  const lb_track& track = flow.track;
  auto line = fmt::format("flow {} {}>{} => {}>{} {} {} {} {} backend={} device={}", word(key.protocol),
                          socket_text(key.source, key.source_port),
                          socket_text(key.destination, key.destination_port), source, destination,
                          word(track.direction), word(track.side), word(track.path), word(track.state),
                          track.backend, track.device);
  if (track.source_nat == LB_YES) line += " source-nat";
  return line;
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
  return pick(std::to_array<std::string_view>({"elsewhere", "same-zone", "same-node"}), locality);
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
  if (is_ipv4(address)) return inet_text(AF_INET, address.data() + 12);
  return inet_text(AF_INET6, address.data());
}

std::string address_text(std::span<const std::uint8_t, 4> address) {
  return inet_text(AF_INET, address.data());
}

std::string socket_text(std::span<const std::uint8_t, 16> address, std::uint16_t port) {
  if (is_ipv4(address)) return fmt::format("{}:{}", address_text(address), port);
  return fmt::format("[{}]:{}", address_text(address), port);
}

std::string socket_text(std::span<const std::uint8_t, 4> address, std::uint16_t port) {
  return fmt::format("{}:{}", address_text(address), port);
}

std::string_view stored_text(std::span<const char> text) noexcept {
  const auto end = std::find(text.begin(), text.end(), '\0');
  return {text.data(), static_cast<std::size_t>(std::distance(text.begin(), end))};
}

std::string frontend_line(const lb_frontend_key& key, const lb_frontend& frontend, std::string_view service) {
  return fmt::format("frontend {}/{} {} {}", socket_text(key.address, key.port), word(key.protocol),
                     word(frontend.kind), service);
}

std::string service_line(const lb_name& name, const lb_service& service) {
  const lb_policy& policy = service.policy;
  auto line = fmt::format("service {} {} {} cluster={} local={} internal={} external={} empty={}/{}",
                          stored_text(name.service), word(name.protocol), word(name.family),
                          service.cluster.count, service.local.count, word(policy.internal),
                          word(policy.external), word(policy.cluster_empty), word(policy.local_empty));
  if (service.affinity_seconds != 0) line += fmt::format(" affinity={}s", service.affinity_seconds);
  if (policy.source_ranges == LB_YES) line += " source-ranges";
  if (policy.packet_path == LB_YES) line += " packet-path";
  if (policy.selection == LB_CONSISTENT) line += " consistent";
  return line;
}

std::string backend_line(const lb_name& name, const lb_backend& backend) {
  auto line = fmt::format("backend {} {} {} {}", stored_text(name.service), word(name.protocol),
                          socket_text(backend.address, backend.port), word(backend.locality));
  if (backend.in_cluster == LB_YES) line += " cluster";
  if (backend.in_local == LB_YES) line += " local";
  if (backend.serving == LB_YES) line += " serving";
  if (backend.weight != 1) line += fmt::format(" weight={}", backend.weight);
  return line;
}

std::string address_line(const lb_address_key& key, const lb_address& address) {
  return fmt::format("address {} {}", address_text(key.address), word(address.kind));
}

std::string flow_line(const lb_flow4_key& key, const lb_flow4& flow) {
  return flow_text(key, flow, socket_text(flow.source.address, flow.source.port),
                   socket_text(flow.destination.address, flow.destination.port));
}

std::string flow_line(const lb_flow6_key& key, const lb_flow6& flow) {
  return flow_text(key, flow, socket_text(flow.source, flow.source_port),
                   socket_text(flow.destination, flow.destination_port));
}

}  // namespace lb::maps
