// SPDX-License-Identifier: Apache-2.0
// All tc filters of a device, ours and others', as the kernel lists them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lb::agent {

enum class TcSide : std::uint8_t { ingress, egress };

/// The handles for a Sluice's filters: it uses the first free one, because others may have taken the lower
/// ones.
struct FilterHandles {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  [[nodiscard]] constexpr bool contains(std::uint32_t handle) const {
    return handle >= first && handle <= last;
  }
};

/// The handles of all Sluices; and those that all of them used before each had its own.
inline constexpr FilterHandles all_filter_handles{0x6c000000, 0x6cffffff};  // 'l'
inline constexpr FilterHandles older_filter_handles{0x6c62, 0x6c69};        // "lb"

/// The handles of the Sluice with pins at that path, from a hash of the path: two Sluices of one node share
/// them in one case of two million.
[[nodiscard]] FilterHandles filter_handles_of(std::string_view pins);

struct TcFilter {
  std::uint32_t priority = 0;
  std::uint32_t handle = 0;
  std::uint32_t program = 0;  ///< id of the BPF program; 0: not a BPF filter
  std::string name;           ///< name given by the filter's owner, else the filter's kind
};

/// Filters on one side of a device's clsact qdisc, in the order in which they run. Empty if there are none,
/// or if the kernel refuses the dump.
[[nodiscard]] std::vector<TcFilter> filters_of(int device, TcSide side);

}  // namespace lb::agent
