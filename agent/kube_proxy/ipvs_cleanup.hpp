// SPDX-License-Identifier: Apache-2.0
// Removes leftovers of kube-proxy's IPVS mode outside of iptables, and hands the connections that use it over
// to conntrack (REL-84).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "agent/kube_proxy/ipvs_leftovers.hpp"

namespace lb::agent {

class IpvsCleanup {
 public:
  /// Reads this node's state, without making the kernel load modules.
  IpvsCleanup();

  /// What would be removed, one line each: "virtual service tcp 10.96.0.1:443", "device kube-ipvs0", "IP set
  /// KUBE-CLUSTER-IP".
  [[nodiscard]] std::vector<std::string> leftovers() const;

  /// TCP and SCTP connections that the removal would end, as "tcp 10.244.1.7:40312 to 10.96.0.80:80 (why)".
  [[nodiscard]] std::vector<std::string> would_end() const;

  /// Adds failures to `problems`; returns the number of connections handed over to conntrack.
  [[nodiscard]] std::size_t remove_services(std::vector<std::string>& problems) const;
  /// Call after removing the rules that refer to the sets.
  void remove_sets(std::vector<std::string>& problems) const;

 private:
  [[nodiscard]] std::size_t hand_over_connections(std::vector<std::string>& problems) const;

  IpvsState state_;
  IpvsRemoval removal_;
  std::vector<IpvsConnection> connections_;
};

}  // namespace lb::agent
