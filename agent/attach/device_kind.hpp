// SPDX-License-Identifier: Apache-2.0
// The kind of a network device, and its consequences: whether the device is served at all, and whether --xdp
// auto uses it. The rules are pure; device_kind() asks the kernel.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace lb::agent {

struct DeviceKind {
  std::uint16_t hardware = 1;         ///< ARPHRD_…: the link-layer header of its frames
  std::string driver;                 ///< from ethtool: "ixgbe", "veth", "wireguard"; empty: it has none
  std::array<std::uint8_t, 6> mac{};  ///< zero if it is not Ethernet
  bool operator==(const DeviceKind&) const = default;
};

/// The kind of a device of this network namespace; nullopt if there is none with that name.
[[nodiscard]] std::optional<DeviceKind> device_kind(const std::string& name);

/// A device's driver, by ethtool. Empty if it has none.
struct DriverInfo {
  std::string name;
  std::string bus;  ///< its place there: "0000:00:03.0"
};
[[nodiscard]] DriverInfo driver_info(const std::string& device);

/// Why no program is attached to such a device, and the consequences; empty: it is served. The programs read
/// Ethernet headers, and loopback carries only packets that never left this node.
[[nodiscard]] std::string unsupported_reason(const DeviceKind& kind);

/// Advice if the driver refuses native XDP; empty: unknown driver (docs/drivers.md has the sources).
[[nodiscard]] std::string native_xdp_advice(const DeviceKind& kind);

/// Why --xdp auto uses only tc on such a device; empty: it tries XDP.
[[nodiscard]] std::string automatic_xdp_refusal(const DeviceKind& kind);

}  // namespace lb::agent
