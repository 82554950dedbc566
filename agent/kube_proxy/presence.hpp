// SPDX-License-Identifier: Apache-2.0
// Detects kube-proxy's rules in this network namespace, including leftovers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lb::agent {

enum class KubeProxy : std::uint8_t { absent, present };

class KubeProxyRules {
 public:
  /// How the rules are installed: "nftables", "iptables" (which IPVS needs, too) or "iptables-legacy"; empty:
  /// there are none. A few small requests; the legacy tables are read again only when their size has changed.
  [[nodiscard]] std::string detect();

 private:
  struct Legacy {
    std::size_t bytes = 0;
    KubeProxy found = KubeProxy::absent;
  };
  [[nodiscard]] KubeProxy detect_legacy(Legacy& seen, int family);

  std::array<Legacy, 2> legacy_;  ///< IPv4's and IPv6's nat tables at the last detect()
};

}  // namespace lb::agent
