// SPDX-License-Identifier: Apache-2.0
// Walks each chain once, however many frontends lead there.
#include "agent/kube_proxy/proxy_rules.hpp"

#include <algorithm>
#include <utility>

namespace lb::agent {
namespace {

constexpr int max_depth = 8;  // kube-proxy has four levels: firewall, external, service, endpoint

/// The endpoints that packets in a chain can reach.
struct Reach {
  std::vector<ServedEndpoint> outside;
  std::vector<ServedEndpoint> inside;
  std::uint32_t affinity_seconds = 0;
};

void add(std::vector<ServedEndpoint>& to, const std::vector<ServedEndpoint>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

class Walker {
 public:
  explicit Walker(const ProxyRules& rules) : rules_(rules) {}

  const Reach& reach(const std::string& chain) {
    if (const auto known = known_.find(chain); known != known_.end()) {
      return known->second;
    }
    known_[chain];  // marks the chain as visited, to stop at a loop
    auto found = ++depth_ > max_depth ? Reach{} : walk(chain);
    --depth_;
    return known_[chain] = std::move(found);
  }

 private:
  Reach walk(const std::string& chain) {
    Reach all;
    Reach own;  // from rules only for inside clients, whose packets skip the rest
    const auto found = rules_.chains.find(chain);
    if (found == rules_.chains.end()) {
      return all;
    }
    for (const auto& rule : found->second) {
      take(rule.clients == RuleClients::inside ? own : all, rule);
    }
    if (!own.inside.empty()) {
      all.inside = std::move(own.inside);
    }
    sort_unique(all.outside);
    sort_unique(all.inside);
    all.affinity_seconds = std::max(all.affinity_seconds, own.affinity_seconds);
    return all;
  }

  void take(Reach& into, const ProxyRule& rule) {
    into.affinity_seconds = std::max(into.affinity_seconds, rule.affinity_seconds);
    add(into.outside, rule.endpoints);
    add(into.inside, rule.endpoints);
    for (const auto& chain : rule.chains) {
      const auto& behind = reach(chain);
      add(into.outside, behind.outside);
      add(into.inside, behind.inside);
      into.affinity_seconds = std::max(into.affinity_seconds, behind.affinity_seconds);
    }
  }

  const ProxyRules& rules_;
  std::map<std::string, Reach> known_;
  int depth_ = 0;
};

void name(ServedFrontend& frontend, const FrontendRule& rule) {
  if (frontend.service.empty()) {
    frontend.service = rule.service;
  }
}

}  // namespace

ServedFrontends served_by(const ProxyRules& rules) {
  Walker walker(rules);
  ServedFrontends served;
  for (const auto& rule : rules.frontend_rules) {
    if (rule.chain.empty() || served.contains(rule.id)) {
      continue;
    }
    auto& frontend = served[rule.id];
    name(frontend, rule);
    const auto& reach = walker.reach(rule.chain);
    frontend.outside.endpoints = reach.outside;
    frontend.inside.endpoints = reach.inside;
    frontend.affinity_seconds = reach.affinity_seconds;
  }
  for (const auto& rule : rules.frontend_rules) {
    if (!rule.chain.empty()) {
      continue;
    }
    auto& frontend = served[rule.id];
    name(frontend, rule);
    frontend.outside.verdict_if_empty = frontend.inside.verdict_if_empty = rule.verdict;
  }
  for (const auto& id : rules.limited) {
    if (const auto found = served.find(id); found != served.end()) {
      found->second.clients = Clients::limited;
    }
  }
  return served;
}

}  // namespace lb::agent
