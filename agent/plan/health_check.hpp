// SPDX-License-Identifier: Apache-2.0
// The response to an external load balancer's health check of one service (SEM-58). Data only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "k8s/objects/model.hpp"

namespace lb::agent {

/// A service's health-check node port on this node.
struct HealthCheck {
  k8s::ObjectKey service;
  std::uint16_t port = 0;
  /// Number of distinct addresses of ready endpoints on this node, IPv4 then IPv6; nullopt: the service has
  /// no ClusterIP of that family, so there is no health check for it.
  std::array<std::optional<std::size_t>, 2> local;
  std::string uid = {};  ///< the Service's
  bool operator==(const HealthCheck&) const = default;
};

/// Health checks by the service's "namespace/name".
using HealthChecks = std::map<std::string, HealthCheck>;

}  // namespace lb::agent
