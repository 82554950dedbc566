// What a service proxy, of any kind, serves on this node, as values that can be compared. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
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

/// What a client meets at a frontend whose set is empty.
enum class Unserved : std::uint8_t { reject, drop };

struct EndpointSet {
  std::vector<ServedEndpoint> endpoints;  ///< sorted, each once
  Unserved empty = Unserved::reject;      ///< counts where there are none
  bool operator==(const EndpointSet&) const = default;
};

struct FrontendId {
  k8s::Address address;  ///< of a node port the family's zero: ::ffff:0.0.0.0 or ::
  std::uint16_t port = 0;
  lb_protocol protocol = LB_TCP;
  auto operator<=>(const FrontendId&) const = default;
};

/// Are only some clients let in (loadBalancerSourceRanges)?
enum class Clients : std::uint8_t { all, limited };

struct ServedFrontend {
  std::string service;  ///< "namespace/name[:port]" as far as it is known
  EndpointSet outside;  ///< for clients beyond this node
  EndpointSet inside;   ///< for this node's pods and processes
  std::uint32_t affinity_seconds = 0;
  Clients clients = Clients::all;
  bool operator==(const ServedFrontend&) const = default;
};

using ServedFrontends = std::map<FrontendId, ServedFrontend>;

/// The address that stands for all of the node's in that family (AF_INET or AF_INET6).
[[nodiscard]] k8s::Address node_port_address(int family);

/// From the 4 or 16 bytes of an address as packets have it; zero for other sizes.
[[nodiscard]] k8s::Address address_of(const void* bytes, std::size_t size);

/// Sorts them, and leaves each out but once.
void sort_endpoints(std::vector<ServedEndpoint>& endpoints);

}  // namespace lb::agent
