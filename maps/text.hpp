// SPDX-License-Identifier: Apache-2.0
// Formats values of map entries (maps/abi/abi.h) for the commands and logs: a fixed word for each value, and
// addresses.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "maps/abi/abi.h"

namespace lb::maps {

/// The fixed word for each value; "?" for one that is unknown to this version (in a map written by another
/// version).
[[nodiscard]] std::string_view word(lb_protocol protocol) noexcept;
[[nodiscard]] std::string_view word(lb_family family) noexcept;
[[nodiscard]] std::string_view word(lb_kind kind) noexcept;
[[nodiscard]] std::string_view word(lb_address_kind kind) noexcept;
[[nodiscard]] std::string_view word(lb_scope scope) noexcept;
[[nodiscard]] std::string_view word(lb_verdict verdict) noexcept;
[[nodiscard]] std::string_view word(lb_locality locality) noexcept;
[[nodiscard]] std::string_view word(lb_side side) noexcept;
[[nodiscard]] std::string_view word(lb_direction direction) noexcept;
[[nodiscard]] std::string_view word(lb_path way) noexcept;
[[nodiscard]] std::string_view word(lb_state state) noexcept;

/// Formats 16 bytes (IPv4 as ::ffff:a.b.c.d is dotted) or 4 bytes, in network byte order.
[[nodiscard]] std::string address_text(std::span<const std::uint8_t, 16> address);
[[nodiscard]] std::string address_text(std::span<const std::uint8_t, 4> address);
/// "10.96.0.10:80" or "[fd00::10]:80".
[[nodiscard]] std::string socket_text(std::span<const std::uint8_t, 16> address, std::uint16_t port);
[[nodiscard]] std::string socket_text(std::span<const std::uint8_t, 4> address, std::uint16_t port);
/// The text in a fixed array up to its first zero; never reads past its end.
[[nodiscard]] std::string_view stored_text(std::span<const char> text) noexcept;

}  // namespace lb::maps
