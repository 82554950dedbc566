// The rules of kube-proxy that select a backend, in one form for nftables and iptables, and the frontends
// that they amount to. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/kube_proxy/served_frontends.hpp"

namespace lb::agent {

/// Whose packets a rule is for. Only of pods and of the node itself do kube-proxy's chains tell some from
/// others.
enum class RuleClients : std::uint8_t { all, inside };

/// One rule of a chain.
struct ProxyStep {
  RuleClients clients = RuleClients::all;
  std::vector<std::string> chains;        ///< one of which takes the packet
  std::vector<ServedEndpoint> endpoints;  ///< or one of these gets it
  std::uint32_t affinity_seconds =
      0;  ///< for clients that come again; such a rule has no endpoint of its own
};

/// What is said about one frontend: where its packets go, or what becomes of those that no chain takes.
struct ProxyEntry {
  FrontendId id;
  std::string service;  ///< "namespace/name[:port]"; empty: not said
  std::string chain;    ///< empty: `refusal` is what is said
  Unserved refusal = Unserved::reject;
};

struct ProxyRules {
  std::map<std::string, std::vector<ProxyStep>> chains;
  std::vector<ProxyEntry> entries;  ///< of two with the same frontend the first counts
  std::vector<FrontendId> limited;  ///< let only some clients in
};

/// Chains that lead to themselves, or nowhere, serve nothing.
[[nodiscard]] ServedFrontends served_by(const ProxyRules& rules);

}  // namespace lb::agent
