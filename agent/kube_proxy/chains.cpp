// SPDX-License-Identifier: Apache-2.0
// Names of kube-proxy's chains, and which of them are reachable from chains that stay.
#include "agent/kube_proxy/chains.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace lb::agent {
namespace {

// From pkg/proxy/iptables/proxier.go and pkg/proxy/ipvs/proxier.go; the last three are from its userspace
// mode.
constexpr std::array<std::string_view, 16> whole_names = {"KUBE-SERVICES",
                                                          "KUBE-EXTERNAL-SERVICES",
                                                          "KUBE-NODEPORTS",
                                                          "KUBE-POSTROUTING",
                                                          "KUBE-MARK-MASQ",
                                                          "KUBE-FORWARD",
                                                          "KUBE-PROXY-FIREWALL",
                                                          "KUBE-PROXY-CANARY",
                                                          "KUBE-NODE-PORT",
                                                          "KUBE-LOAD-BALANCER",
                                                          "KUBE-SOURCE-RANGES-FIREWALL",
                                                          "KUBE-IPVS-FILTER",
                                                          "KUBE-IPVS-OUT-FILTER",
                                                          "KUBE-NODEPORT-NON-LOCAL",
                                                          "KUBE-PORTALS-HOST",
                                                          "KUBE-PORTALS-CONTAINER"};

// Prefixes for service ports and endpoints, followed by a hash.
constexpr std::array<std::string_view, 6> prefixes = {"KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-",
                                                      "KUBE-SEP-", "KUBE-FW-",  "KUBE-XLB-"};

constexpr std::string_view marks = "KUBE-MARK-MASQ";
constexpr std::string_view masquerades = "KUBE-POSTROUTING";  // masquerades marked packets

/// kube-proxy's chains to which chains of others lead, and the chains that those need.
std::set<std::string> needed(const ChainTable& table) {
  std::set<std::string> kept;
  std::vector<std::string> open;
  const auto keep = [&](const std::string& chain) {
    if (is_kube_proxy_chain(chain) && kept.insert(chain).second) {
      open.push_back(chain);
    }
  };
  for (const auto& jump : table.jumps) {
    if (!table.base.contains(jump.from) && !is_kube_proxy_chain(jump.from)) {
      keep(jump.to);
    }
  }
  while (!open.empty()) {
    const auto chain = open.back();
    open.pop_back();
    for (const auto& jump : table.jumps) {
      if (jump.from == chain) {
        keep(jump.to);
      }
    }
    if (chain == marks && std::ranges::find(table.chains, masquerades) != table.chains.end()) {
      keep(std::string(masquerades));
    }
  }
  return kept;
}

}  // namespace

bool is_kube_proxy_chain(std::string_view name) {
  return std::ranges::find(whole_names, name) != whole_names.end() ||
         std::ranges::any_of(prefixes, [name](auto prefix) { return name.starts_with(prefix); });
}

ChainRemoval plan_removal(const ChainTable& table) {
  const auto kept = needed(table);
  ChainRemoval removal;
  removal.kept = {kept.begin(), kept.end()};
  const auto goes = [&](const std::string& chain) {
    return is_kube_proxy_chain(chain) && !kept.contains(chain);
  };
  std::ranges::copy_if(table.chains, std::back_inserter(removal.chains), goes);
  std::ranges::copy_if(table.jumps, std::back_inserter(removal.jumps),
                       [&](const auto& jump) { return goes(jump.to) && !is_kube_proxy_chain(jump.from); });
  return removal;
}

}  // namespace lb::agent
