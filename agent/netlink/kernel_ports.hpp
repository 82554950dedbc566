// Which local ports the kernel assigns or reserves, and which remain for source NAT.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "agent/options/config.hpp"
#include "maps/abi/abi.h"

namespace lb::agent {

/// Of this network namespace.
struct KernelPorts {
  PortRange ephemeral;              ///< net.ipv4.ip_local_port_range; 0 to 0: not known
  std::vector<PortRange> reserved;  ///< net.ipv4.ip_local_reserved_ports
  bool operator==(const KernelPorts&) const = default;
};

/// What cannot be read is as if there were none.
[[nodiscard]] KernelPorts read_kernel_ports();

/// "30000-32767,8080" as the kernel writes it; what is no range is skipped.
[[nodiscard]] std::vector<PortRange> parse_port_list(std::string_view text);

/// The two largest ranges of `wanted` outside of the ephemeral one, ascending. All of `wanted` where less
/// than a thousand ports would be left: then the look at the host's sockets has to suffice.
[[nodiscard]] std::vector<PortRange> source_ports(const std::vector<PortRange>& wanted,
                                                  const KernelPorts& kernel);

/// A bit for each port that source NAT leaves to the kernel although it is in `chosen`.
[[nodiscard]] std::array<std::uint64_t, LB_RESERVED_WORDS> reserved_bits(const std::vector<PortRange>& chosen,
                                                                         const KernelPorts& kernel);

}  // namespace lb::agent
