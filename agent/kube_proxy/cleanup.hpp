// Finds what kube-proxy left on this node, in any of its modes, and removes it without a binary of the host.
#pragma once

#include <string>
#include <vector>

namespace lb::agent {

/// One line each: "table ip kube-proxy", "chain KUBE-SERVICES in nat of iptables-nft". Only what would be
/// removed.
[[nodiscard]] std::vector<std::string> kube_proxy_leftovers();

/// Its chains that stay because others' chains lead there, likewise.
[[nodiscard]] std::vector<std::string> kube_proxy_kept();

/// Removes what is left over, each table in one step; what was not, as one sentence, empty: nothing.
[[nodiscard]] std::string remove_kube_proxy_leftovers();

}  // namespace lb::agent
