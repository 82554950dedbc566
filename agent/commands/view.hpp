// The contents of the pinned maps as values for people: services with their frontends and backends, flows.
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

/// One service number and all that belongs to it.
struct ServiceView {
  std::uint32_t number = 0;
  lb_name name{};
  lb_service service{};
  std::vector<std::pair<lb_frontend_key, lb_frontend>> frontends;  ///< by kind, then address
};

struct BackendView {
  std::uint32_t id = 0;
  lb_backend backend{};
};

/// The backends to show, and how many are left out because their endpoints are gone.
struct BackendViews {
  std::vector<BackendView> backends;
  std::size_t gone = 0;
};

/// One connection, read from the entry that its replies match. IPv4 in the 16-byte form.
struct FlowView {
  struct End {
    std::array<std::uint8_t, 16> address{};
    std::uint16_t port = 0;
  };
  lb_family family = LB_IPV4;
  lb_protocol protocol = LB_TCP;
  End client;
  End frontend;  ///< what the client asked for
  End backend;
  End source;  ///< as the backend sees the client
  lb_track track{};
  bool is_assured = false;  ///< seen in both directions
};

/// Services in use, sorted by name, protocol and family. Fails with the errno of a map.
[[nodiscard]] maps::result<std::vector<ServiceView>> read_services(const maps::MapSet& maps);

/// Living backends of these services (numbers, ascending), by service and then id.
[[nodiscard]] std::vector<BackendView> read_backends(const maps::MapSet& maps,
                                                     const std::vector<std::uint32_t>& services);

/// Without those whose endpoints are gone.
[[nodiscard]] BackendViews present_among(std::vector<BackendView> backends);

/// Every flow of both families, once; the established come first. Unassured entries that the programs ignore
/// are left out: those whose flow was established since, and old ones. `now`: seconds of lb_clock, 0 if not
/// known.
[[nodiscard]] maps::error_code read_flows(const maps::MapSet& maps, std::uint32_t now,
                                          const std::function<void(const FlowView&)>& visit);

/// What a reply's entry says of its flow; nothing for the entry of the other direction.
[[nodiscard]] std::optional<FlowView> flow_view(const lb_flow4_key& key, const lb_flow4& flow);
[[nodiscard]] std::optional<FlowView> flow_view(const lb_flow6_key& key, const lb_flow6& flow);

/// "namespace/name[:port]" exactly; or every port of "namespace/name"; else everything that begins so.
[[nodiscard]] std::vector<ServiceView> matching(std::vector<ServiceView> services, std::string_view wanted);

}  // namespace lb::agent
