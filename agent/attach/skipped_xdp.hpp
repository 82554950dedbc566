// SPDX-License-Identifier: Apache-2.0
// Devices whose driver takes an XDP program and runs it for no frame.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lb::agent {

/// Features by their numbers; linux/virtio_net.h is not C++.
namespace virtio {
inline constexpr std::size_t guest_tso4 = 7;
inline constexpr std::size_t guest_tso6 = 8;
inline constexpr std::size_t guest_ecn = 9;
inline constexpr std::size_t guest_ufo = 10;
inline constexpr std::size_t mrg_rxbuf = 15;
}  // namespace virtio

/// Has a virtio-net device with these features (as sysfs has them, a digit each) such a driver? It receives
/// into pages where its host segments for it and buffers are not merged, and has no XDP for those
/// (receive_big in drivers/net/virtio_net.c).
[[nodiscard]] bool virtio_skips_xdp(std::string_view features);

/// Why no native XDP is attached to that device though the driver would take it; empty: nothing is known
/// against it.
[[nodiscard]] std::string skipped_xdp(const std::string& device);

/// What to do about it.
inline constexpr const char* skipped_xdp_remedy = "give it mrg_rxbuf=on, QEMU's default";

}  // namespace lb::agent
