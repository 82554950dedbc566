// The kind of a network device, and what follows from it: whether the device is served at all, and whether
// --xdp auto uses it. The rules are pure; device_kind() asks the kernel.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace lb::agent {

struct DeviceKind {
  std::uint16_t hardware = 1;         ///< ARPHRD_…: the header that its frames begin with
  std::string driver;                 ///< as ethtool has it: "ixgbe", "veth", "wireguard"; empty: it has none
  std::array<std::uint8_t, 6> mac{};  ///< zero without Ethernet
  bool operator==(const DeviceKind&) const = default;
};

/// Of a device of this network namespace; nothing: there is none of that name.
[[nodiscard]] std::optional<DeviceKind> device_kind(const std::string& name);

/// Why no program is attached to such a device, and what that means; empty: it is served. The programs read
/// Ethernet headers, and loopback carries what never left this node.
[[nodiscard]] std::string unsupported_reason(const DeviceKind& kind);

/// What to do where the driver refuses native XDP; empty: we know nothing of it (docs/drivers.md has the
/// sources).
[[nodiscard]] std::string native_xdp_advice(const DeviceKind& kind);

/// Why --xdp auto leaves such a device to tc; empty: it does not.
[[nodiscard]] std::string automatic_xdp_refusal(const DeviceKind& kind);

}  // namespace lb::agent
