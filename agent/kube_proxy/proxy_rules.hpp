// SPDX-License-Identifier: Apache-2.0
// kube-proxy's rules that select a backend, in one form for nftables and iptables, and the resulting
// frontends. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/kube_proxy/packet_conditions.hpp"
#include "agent/kube_proxy/served_frontends.hpp"

namespace lb::agent {

/// One rule of a chain.
struct ProxyRule {
  RuleClients clients = RuleClients::all;
  std::vector<std::string> chains;        ///< one of them gets the packet
  std::vector<ServedEndpoint> endpoints;  ///< or one of these does
  std::uint32_t affinity_seconds = 0;     ///< session affinity; such a rule has no endpoint of its own
};

/// The rule of one frontend: the chain for its packets, or the verdict for packets that no chain takes.
struct FrontendRule {
  FrontendId id;
  std::string service;  ///< "namespace/name[:port]"; empty: unknown
  std::string chain;    ///< empty: the rule has `verdict`
  EmptyVerdict verdict = EmptyVerdict::reject;
};

struct ProxyRules {
  std::map<std::string, std::vector<ProxyRule>> chains;
  std::vector<FrontendRule> frontend_rules;  ///< of several with the same frontend the first counts
  std::vector<FrontendId> limited;           ///< frontends that allow only some clients
  std::vector<std::string> unread;  ///< rules that are not understood, as text; they are not evaluated
};

/// Evaluates the rules. Chains that form a loop, or lead nowhere, serve nothing.
[[nodiscard]] ServedFrontends served_by(const ProxyRules& rules);

}  // namespace lb::agent
