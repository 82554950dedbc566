// SPDX-License-Identifier: Apache-2.0
// The services that a service proxy of any kind serves on this node, as values that can be compared. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "k8s/objects/model.hpp"
#include "maps/abi/abi.h"

namespace lb::agent {

struct ServedEndpoint {
  k8s::Address address;
  std::uint16_t port = 0;
  auto operator<=>(const ServedEndpoint&) const = default;
};

/// The verdict: what a client gets from a set without endpoints.
enum class EmptyVerdict : std::uint8_t { reject, drop };

struct EndpointSet {
  std::vector<ServedEndpoint> endpoints;  ///< sorted, each once
  EmptyVerdict verdict_if_empty = EmptyVerdict::reject;
  bool operator==(const EndpointSet&) const = default;
};

struct FrontendId {
  k8s::Address address;  ///< the family's zero address for a node port: ::ffff:0.0.0.0 or ::
  std::uint16_t port = 0;
  lb_protocol protocol = LB_TCP;
  auto operator<=>(const FrontendId&) const = default;
};

/// Whether only some clients are allowed (loadBalancerSourceRanges).
enum class Clients : std::uint8_t { all, limited };

struct ServedFrontend {
  std::string service;  ///< "namespace/name[:port]" if known
  EndpointSet outside;  ///< for clients outside of this node
  EndpointSet inside;   ///< for this node's pods and processes
  std::uint32_t affinity_seconds = 0;
  Clients clients = Clients::all;
  bool operator==(const ServedFrontend&) const = default;
};

using ServedFrontends = std::map<FrontendId, ServedFrontend>;

/// The address that stands for all node addresses in that family (AF_INET or AF_INET6).
[[nodiscard]] k8s::Address node_port_address(int family);

/// Converts the 4 or 16 bytes of an address in a packet; nullopt for other sizes.
[[nodiscard]] std::optional<k8s::Address> address_of(const void* bytes, std::size_t size);

/// Sorts endpoints and removes duplicates.
void sort_unique(std::vector<ServedEndpoint>& endpoints);

}  // namespace lb::agent
