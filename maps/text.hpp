// One canonical line per map entry, for goldens, the command line and logs. Values of maps/abi/abi.h in, text
// out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "maps/abi/abi.h"

namespace lb::maps {

/// The one word for each value; "?" for one that this version does not know (a map written by another
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

/// Text of 16 bytes (IPv4 as ::ffff:a.b.c.d is dotted) or of 4 bytes, in network order.
[[nodiscard]] std::string address_text(std::span<const std::uint8_t, 16> address);
[[nodiscard]] std::string address_text(std::span<const std::uint8_t, 4> address);
/// "10.96.0.10:80" or "[fd00::10]:80".
[[nodiscard]] std::string socket_text(std::span<const std::uint8_t, 16> address, std::uint16_t port);
[[nodiscard]] std::string socket_text(std::span<const std::uint8_t, 4> address, std::uint16_t port);
/// A fixed array of characters as far as its first zero; never reads past its end.
[[nodiscard]] std::string_view stored_text(std::span<const char> text) noexcept;

/// `frontend 10.96.0.10:80/TCP ClusterIP default/web:http`; node ports are at 0.0.0.0 and [::].
[[nodiscard]] std::string frontend_line(const lb_frontend_key& key, const lb_frontend& frontend,
                                        std::string_view service);
/// `service default/web:http TCP IPv4 cluster=6 local=2 internal=cluster external=local empty=reject/drop`,
/// then what is not usual: `affinity=10800s`, `source-ranges`, `packet-path`. Sizes are slots; empty= is what
/// the empty cluster and the empty local set answer.
[[nodiscard]] std::string service_line(const lb_name& name, const lb_service& service);
/// `backend default/web:http TCP 10.1.0.5:8080 same-zone cluster local serving`: the sets that new flows find
/// it in, and whether old UDP flows may stay; `weight=3` where it is not 1.
[[nodiscard]] std::string backend_line(const lb_name& name, const lb_backend& backend);
/// `address 192.0.2.1 node-port-address`.
[[nodiscard]] std::string address_line(const lb_address_key& key, const lb_address& address);
/// `flow TCP 192.0.2.7:40000>10.96.0.10:80 => 192.0.2.7:40000>10.1.0.5:8080 forward uplink-ingress stack
/// open backend=7 device=2`, and `source-nat`.
[[nodiscard]] std::string flow_line(const lb_flow4_key& key, const lb_flow4& flow);
[[nodiscard]] std::string flow_line(const lb_flow6_key& key, const lb_flow6& flow);

}  // namespace lb::maps
