// SPDX-License-Identifier: Apache-2.0
// Identifies a hook of this node, and formats it for messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lb::agent {

enum class HookKind : std::uint8_t {
  any,  ///< all hooks of a device; without a device, all of the node
  tc_ingress,
  tc_egress,
  pod_ingress,
  pod_egress,
  xdp,
  socket,
};

struct HookId {
  HookKind kind = HookKind::any;
  std::string device = {};  ///< device name; empty for a socket hook
  std::string socket = {};  ///< "connect4"; empty for a device's hook

  bool operator==(const HookId&) const = default;

  /// The name without the device: "ingress", "pod_ingress", "xdp", "connect4"; "any hook".
  [[nodiscard]] std::string_view name() const noexcept;
  /// "eth0 ingress", "cgroup connect4"; "eth0" for all hooks of a device.
  [[nodiscard]] std::string text() const;
};

}  // namespace lb::agent
