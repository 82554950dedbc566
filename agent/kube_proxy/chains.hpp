// SPDX-License-Identifier: Apache-2.0
// Identifies kube-proxy's chains in iptables' tables, and the rules to remove together with them. Pure:
// tables are values.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lb::agent {

/// A rule with a jump or goto to a chain of its table.
struct ChainJump {
  std::string from;
  std::uint64_t rule = 0;  ///< the rule's number in its table
  std::string to;
};

/// One table, for instance "nat" of IPv4.
struct ChainTable {
  std::vector<std::string> chains;  ///< all chains
  std::set<std::string> base;       ///< chains of kernel hooks, like PREROUTING
  std::vector<ChainJump> jumps;
};

struct ChainRemoval {
  std::vector<ChainJump> jumps;     ///< rules of base chains that lead to removed chains
  std::vector<std::string> chains;  ///< removed, with all of their rules
  std::vector<std::string> kept;    ///< kube-proxy's chains to which chains of others lead
};

/// Whether kube-proxy makes chains of that name, in iptables or IPVS mode, in any version since 1.13. The
/// kubelet's chains (KUBE-FIREWALL, KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT, KUBE-MARK-DROP) are not among
/// them.
[[nodiscard]] bool is_kube_proxy_chain(std::string_view name);

/// Plans the removal. If a chain of others leads to one of kube-proxy's, like port mappings of a network
/// plug-in to KUBE-MARK-MASQ, that chain stays with all chains that it needs.
[[nodiscard]] ChainRemoval plan_removal(const ChainTable& table);

}  // namespace lb::agent
