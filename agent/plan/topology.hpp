// SPDX-License-Identifier: Apache-2.0
// Decides which endpoints of a service port a node uses: traffic policy, hints and Service Topology. Pure, on
// bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lb::agent {

/// Properties of one endpoint, seen from one node; a set of these bits. Bits 16 to 31 are the service's
/// topology keys: bit 16 + i is set if the endpoint shares the node's value of key i (see
/// topology_key_trait).
using Traits = std::uint32_t;

namespace trait {
inline constexpr Traits ready = 1U << 0U;
inline constexpr Traits serving = 1U << 1U;
inline constexpr Traits draining = 1U << 2U;  ///< serving, terminating and not ready
inline constexpr Traits local = 1U << 3U;     ///< on this node
inline constexpr Traits same_zone = 1U << 4U;
inline constexpr Traits node_hint = 1U << 5U;  ///< has a hint for some node
inline constexpr Traits my_node_hint = 1U << 6U;
inline constexpr Traits zone_hint = 1U << 7U;
inline constexpr Traits my_zone_hint = 1U << 8U;
inline constexpr Traits terminating = 1U << 9U;
inline constexpr Traits none = 1U << 15U;  ///< no endpoint has it
}  // namespace trait

inline constexpr std::size_t max_topology_keys = 16;

[[nodiscard]] constexpr Traits topology_key_trait(std::size_t key) noexcept { return 1U << (16U + key); }

[[nodiscard]] constexpr bool has_all(Traits traits, Traits wanted) noexcept {
  return (traits & wanted) == wanted;
}

/// Counts of the endpoints of one service port. Merged endpoints count once (SEM-30).
struct EndpointCounts {
  std::uint32_t ready = 0;
  std::uint32_t draining = 0;
  std::uint32_t local_ready = 0;
  std::uint32_t local_draining = 0;
  std::uint32_t node_hinted = 0;  ///< this and the next three: ready endpoints only
  std::uint32_t my_node = 0;
  std::uint32_t zone_hinted = 0;
  std::uint32_t my_zone = 0;
  Traits ready_keys = 0;  ///< topology keys that some ready endpoint shares with the node
  Traits draining_keys = 0;

  /// Adds one endpoint with these traits.
  void add(Traits traits) noexcept {
    constexpr Traits all_keys = 0xffff0000U;
    const auto one_if = [](Traits some, Traits wanted) { return has_all(some, wanted) ? 1U : 0U; };
    const Traits of_ready = has_all(traits, trait::ready) ? traits : 0;
    ready += one_if(of_ready, trait::ready);
    local_ready += one_if(of_ready, trait::local);
    node_hinted += one_if(of_ready, trait::node_hint);
    my_node += one_if(of_ready, trait::my_node_hint);
    zone_hinted += one_if(of_ready, trait::zone_hint);
    my_zone += one_if(of_ready, trait::my_zone_hint);
    ready_keys |= of_ready & all_keys;
    draining += one_if(traits, trait::draining);
    local_draining += one_if(traits, trait::draining | trait::local);
    draining_keys |= has_all(traits, trait::draining) ? traits & all_keys : 0;
  }
  /// Adds another count.
  void add(const EndpointCounts& other) noexcept {
    ready += other.ready;
    draining += other.draining;
    local_ready += other.local_ready;
    local_draining += other.local_draining;
    node_hinted += other.node_hinted;
    my_node += other.my_node;
    zone_hinted += other.zone_hinted;
    my_zone += other.my_zone;
    ready_keys |= other.ready_keys;
    draining_keys |= other.draining_keys;
  }
  /// Whether any endpoint anywhere could take new flows (SEM-20: hasAny).
  [[nodiscard]] bool any() const noexcept { return ready + draining > 0; }
  bool operator==(const EndpointCounts&) const = default;
};

/// The source of a service port's cluster set (docs/semantics.md, choice H: keys win over hints).
enum class TopologyMode : std::uint8_t { hints, keys };

/// Each set consists of the endpoints that have all of these traits; trait::none: the empty set.
struct Sets {
  Traits cluster = trait::none;
  Traits local = trait::none;
  bool operator==(const Sets&) const = default;
};

/// SEM-20 and SEM-21: the ready endpoints that hints select; if none is ready anywhere, the draining ones.
/// With keys: the first key that a ready endpoint shares selects among the ready ones; if there is none,
/// likewise among the draining ones; if there is none, the set is empty, because keys without "*" are a
/// requirement and not a preference.
[[nodiscard]] Traits cluster_set(const EndpointCounts& counts, TopologyMode mode) noexcept;

/// SEM-20: local ready endpoints, else local draining ones, regardless of endpoints elsewhere.
[[nodiscard]] Traits local_set(const EndpointCounts& counts) noexcept;

}  // namespace lb::agent
