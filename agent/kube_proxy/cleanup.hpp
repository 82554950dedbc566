// SPDX-License-Identifier: Apache-2.0
// Finds kube-proxy's leftovers on this node, of any of its modes, and removes them without a binary of the
// host.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lb::agent {

/// What would be removed, one line each: "table ip kube-proxy", "chain KUBE-SERVICES in nat of iptables-nft".
[[nodiscard]] std::vector<std::string> kube_proxy_leftovers();

/// kube-proxy's chains that stay because chains of others lead there, likewise.
[[nodiscard]] std::vector<std::string> kube_proxy_kept();

/// Connections that the removal would end, each with the reason: only IPVS's connections depend on removed
/// objects.
[[nodiscard]] std::vector<std::string> kube_proxy_would_end();

struct KubeProxyRemoved {
  std::size_t handed = 0;  ///< connections of IPVS that conntrack translates now
  std::string problem;     ///< message about failures; empty: none
};

/// Removes the leftovers, each table in one step.
[[nodiscard]] KubeProxyRemoved remove_kube_proxy_leftovers();

}  // namespace lb::agent
