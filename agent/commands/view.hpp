// SPDX-License-Identifier: Apache-2.0
// The contents of the pinned maps in readable form: services with their frontends and backends, flows.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "maps/mapset.hpp"

namespace lb::agent {

/// One service number with its entries.
struct ServiceView {
  std::uint32_t number = 0;
  lb_name name{};
  lb_service service{};
  std::vector<std::pair<lb_frontend_key, lb_frontend>> frontends;  ///< sorted by kind, then address
};

struct BackendView {
  std::uint32_t id = 0;
  lb_backend backend{};
};

/// The backends to show, and the number of those left out because their endpoints are gone.
struct BackendViews {
  std::vector<BackendView> backends;
  std::size_t gone = 0;
};

/// One connection, read from its reply entry; state and time of its last packet are those of both entries.
/// IPv4 addresses in the 16-byte form.
struct FlowView {
  struct End {
    std::array<std::uint8_t, 16> address{};
    std::uint16_t port = 0;
  };
  lb_family family = LB_IPV4;
  lb_protocol protocol = LB_TCP;
  End client;
  End frontend;  ///< the client's destination
  End backend;
  End source;  ///< the client's address as the backend sees it
  lb_track track{};
  bool is_assured = false;  ///< seen in both directions
};

/// Services in use, sorted by name, protocol and family. Fails with a map's errno.
[[nodiscard]] maps::result<std::vector<ServiceView>> read_services(const maps::MapSet& maps);

/// Backends in use of these services (numbers, ascending), sorted by service and then id.
[[nodiscard]] std::vector<BackendView> read_backends(const maps::MapSet& maps,
                                                     const std::vector<std::uint32_t>& services);

/// Removes backends whose endpoints are gone.
[[nodiscard]] BackendViews present_among(std::vector<BackendView> backends);

/// Visits every flow of both families once; assured flows first. Skips unassured entries that the programs
/// ignore: those whose flow is assured by now, and old ones. `now`: seconds of lb_clock, 0 if unknown.
[[nodiscard]] maps::error_code read_flows(const maps::MapSet& maps, std::uint32_t now,
                                          const std::function<void(const FlowView&)>& visit);

/// The reply entry of a flow, with the later packet of both entries, and the state that is nearer to the end:
/// each side's packets change only its own entry.
[[nodiscard]] lb_track joined(const lb_track& reply, const lb_track& forward);

/// The flow of a reply entry; nullopt for a forward entry.
[[nodiscard]] std::optional<FlowView> flow_view(const lb_flow4_key& key, const lb_flow4& flow);
[[nodiscard]] std::optional<FlowView> flow_view(const lb_flow6_key& key, const lb_flow6& flow);

/// Services named exactly "namespace/name[:port]"; or all ports of "namespace/name"; else all with this
/// prefix.
[[nodiscard]] std::vector<ServiceView> matching(std::vector<ServiceView> services, std::string_view wanted);

}  // namespace lb::agent
