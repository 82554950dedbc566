// SPDX-License-Identifier: Apache-2.0
// The part of a table shared by the node and by services that services leave to the node.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lb::agent {

/// Entries of lb_ranges and lb_addresses that only the node's own entries may use: a sixteenth.
[[nodiscard]] constexpr std::uint32_t node_reserve(std::uint32_t limit) noexcept { return limit / 16; }

/// How many entries such a table may hold in all when a service adds one, while it has `own` of the node's.
[[nodiscard]] constexpr std::size_t limit_for_services(std::uint32_t limit, std::size_t own) noexcept {
  const std::size_t reserve = node_reserve(limit);
  return own < reserve ? limit - (reserve - own) : limit;
}

}  // namespace lb::agent
