// SPDX-License-Identifier: Apache-2.0
// Which endpoints of this node the kernel reaches by an uplink: the interface by which planning asks. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "k8s/objects/model.hpp"

namespace lb::agent {

/// How packets of this node reach an endpoint that its nodeName places here. By an uplink: a pod with a
/// device of the network (SR-IOV, macvlan, ipvlan), behind a bridge that holds the NIC, or on another node in
/// truth. Its replies bypass this node's stack unless they are for the node's own address.
enum class ReachedBy : std::uint8_t { unknown, device, uplink };

class LocalRoutes {
 public:
  virtual ~LocalRoutes() = default;
  /// For an endpoint of that service. Never `unknown`.
  [[nodiscard]] virtual ReachedBy ask(std::string_view service, const k8s::Address& address) = 0;
  /// How often ask() had to ask the kernel, which costs some microseconds.
  [[nodiscard]] virtual std::uint64_t lookups() const noexcept = 0;
};

}  // namespace lb::agent
