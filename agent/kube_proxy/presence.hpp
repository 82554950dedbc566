// Detects kube-proxy's rules in this network namespace, also those that it left behind.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lb::agent {

enum class KubeProxy : std::uint8_t { absent, present };

class KubeProxyRules {
 public:
  /// By what means they are there: "nftables", "iptables" (which IPVS needs, too) or "iptables-legacy";
  /// empty: they are not. A few small requests; the legacy tables are read again only when their size has
  /// changed.
  [[nodiscard]] std::string look();

 private:
  struct Legacy {
    std::size_t bytes = 0;
    KubeProxy found = KubeProxy::absent;
  };
  [[nodiscard]] KubeProxy look_at(Legacy& seen, int family);

  std::array<Legacy, 2> legacy_;  ///< IPv4's and IPv6's nat tables, as of the last look
};

}  // namespace lb::agent
