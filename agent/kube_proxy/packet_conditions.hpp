// SPDX-License-Identifier: Apache-2.0
// What a rule of kube-proxy asks of a packet, whoever wrote the rule and in whatever form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/kube_proxy/served_frontends.hpp"

namespace lb::agent {

/// The clients of a rule. kube-proxy's chains distinguish only pods and the node itself from others.
enum class RuleClients : std::uint8_t { all, inside };

struct PacketConditions {
  enum class Destination : std::uint8_t { any, address, range };

  Destination match = Destination::any;
  k8s::Address destination;  ///< for Destination::address
  lb_protocol protocol = LB_ANY_PROTOCOL;
  std::vector<std::uint16_t> ports;  ///< destination ports; empty: any
  RuleClients clients = RuleClients::all;
  std::string unread;  ///< the first condition that is not understood: "match \"quota\""; empty: none

  /// Keeps the first.
  void not_understood(std::string what) {
    if (unread.empty()) {
      unread = std::move(what);
    }
  }
};

}  // namespace lb::agent
