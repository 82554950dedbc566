// What a device's driver supports of XDP, and whether another XDP program is attached to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/base/privileges.hpp"
#include "agent/options/config.hpp"

namespace lb::agent {

struct DeviceFacts {
  std::string driver;  ///< "virtio_net", "veth"; empty: not known
  std::optional<std::uint64_t>
      xdp;                  ///< NETDEV_XDP_ACT_… bits; nothing: the kernel says of no device (before 6.3)
  std::string skipped;      ///< why native XDP is not attached though it could be; empty: it is
  std::string xdp_program;  ///< not ours, that runs there; empty: none
};

[[nodiscard]] DeviceFacts device_facts(const std::string& name);

/// "driver veth; XDP: native, redirect, transmit".
[[nodiscard]] std::string facts_text(const DeviceFacts& facts);

/// Does its driver say that it has native XDP?
[[nodiscard]] bool has_native_xdp(const std::string& name);

/// Throws StartError where --xdp insists on what cannot be had on that device.
void require_xdp(const AgentOptions& options, const std::string& name, const DeviceFacts& facts);

/// What an agent that does not insist goes without; empty `found`: nothing.
[[nodiscard]] Refusal xdp_lack(const AgentOptions& options, const DeviceFacts& facts);

}  // namespace lb::agent
