// Which chains of iptables' tables are kube-proxy's, and which rules must be removed with them. Pure: tables
// are values.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lb::agent {

/// A rule that jumps or goes to a chain of its table.
struct ChainJump {
  std::string from;
  std::uint64_t rule = 0;  ///< the table's own number for it
  std::string to;
};

/// One table: "nat" of IPv4, for instance.
struct ChainTable {
  std::vector<std::string> chains;  ///< all
  std::set<std::string> base;       ///< those that a hook of the kernel calls, as PREROUTING
  std::vector<ChainJump> jumps;
};

struct ChainRemoval {
  std::vector<ChainJump> jumps;     ///< rules of base chains that lead to what goes
  std::vector<std::string> chains;  ///< go, with all of their rules
  std::vector<std::string> kept;    ///< kube-proxy's, but others' chains lead there
};

/// Does kube-proxy make chains of that name, in its iptables or its IPVS mode, as of any version since 1.13?
/// The kubelet's (KUBE-FIREWALL, KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT, KUBE-MARK-DROP) are not among them.
[[nodiscard]] bool is_kube_proxy_chain(std::string_view name);

/// What to remove. Where a chain that is not kube-proxy's leads to one that is, as port mappings of a
/// network plug-in do to KUBE-MARK-MASQ, that one stays with all that it needs.
[[nodiscard]] ChainRemoval plan_removal(const ChainTable& table);

}  // namespace lb::agent
