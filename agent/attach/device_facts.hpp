// SPDX-License-Identifier: Apache-2.0
// The XDP features of a device's driver, and whether another XDP program is attached to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/base/privileges.hpp"
#include "agent/options/config.hpp"

namespace lb::agent {

struct DeviceFacts {
  std::string driver;  ///< "virtio_net", "veth"; empty: unknown
  /// NETDEV_XDP_ACT_… bits; nullopt: the kernel does not report them (before 6.3).
  std::optional<std::uint64_t> xdp;
  std::string xdp_program;   ///< another XDP program attached there; empty: none
  std::string skipped = {};  ///< why native XDP is not attached although the driver takes it; empty: it is
};

[[nodiscard]] DeviceFacts device_facts(const std::string& name);

/// "driver veth; XDP: native, redirect, transmit".
[[nodiscard]] std::string facts_text(const DeviceFacts& facts);

/// Whether the driver reports native XDP.
[[nodiscard]] bool has_native_xdp(const std::string& name);

/// Throws StartError if --xdp requires a mode that the device does not support.
void require_xdp(const AgentOptions& options, const std::string& name, const DeviceFacts& facts);

/// What an agent without a required mode does without; empty `found`: nothing.
[[nodiscard]] Refusal xdp_lack(const AgentOptions& options, const DeviceFacts& facts);

}  // namespace lb::agent
