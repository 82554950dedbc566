// SPDX-License-Identifier: Apache-2.0
#include "agent/kube_proxy/served_frontends.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "k8s/objects/raw_address.hpp"

namespace lb::agent {

k8s::Address node_port_address(int family) {
  return family == AF_INET ? k8s::address_of(std::array<std::uint8_t, 4>{}) : k8s::Address();
}

std::optional<k8s::Address> address_of(const void* bytes, std::size_t size) {
  return k8s::read_address({static_cast<const std::byte*>(bytes), size});
}

void sort_unique(std::vector<ServedEndpoint>& endpoints) {
  std::ranges::sort(endpoints);
  const auto repeated = std::ranges::unique(endpoints);
  endpoints.erase(repeated.begin(), repeated.end());
}

}  // namespace lb::agent
