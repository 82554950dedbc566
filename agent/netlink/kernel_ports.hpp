// SPDX-License-Identifier: Apache-2.0
// Which local ports the kernel assigns or reserves, and which remain for source NAT.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "agent/options/config.hpp"
#include "maps/abi/abi.h"

namespace lb::agent {

/// Local port settings of this network namespace.
struct KernelPorts {
  PortRange ephemeral;              ///< net.ipv4.ip_local_port_range; 0 to 0: unknown
  std::vector<PortRange> reserved;  ///< net.ipv4.ip_local_reserved_ports
  bool operator==(const KernelPorts&) const = default;
};

/// Reads both sysctls. One that cannot be read counts as unset.
[[nodiscard]] KernelPorts read_kernel_ports();

/// Parses "30000-32767,8080" as the kernel writes it; malformed entries are skipped.
[[nodiscard]] std::vector<PortRange> parse_port_list(std::string_view text);

/// The two largest ranges of `wanted` outside of the ephemeral range, ascending. Returns all of `wanted` if
/// fewer than a thousand ports would be left: then only the program's lookup of host sockets avoids
/// conflicts.
[[nodiscard]] std::vector<PortRange> source_ports(const std::vector<PortRange>& wanted,
                                                  const KernelPorts& kernel);

/// Bitmap of the reserved ports; also of the ephemeral ports, unless `chosen` overlaps with them.
[[nodiscard]] std::array<std::uint64_t, LB_RESERVED_WORDS> reserved_bits(const std::vector<PortRange>& chosen,
                                                                         const KernelPorts& kernel);

}  // namespace lb::agent
