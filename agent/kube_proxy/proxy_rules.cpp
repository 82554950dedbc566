// Walks each chain once, however many frontends lead there.
#include "agent/kube_proxy/proxy_rules.hpp"

#include <algorithm>
#include <utility>

namespace lb::agent {
namespace {

constexpr int deepest = 8;  // kube-proxy has four levels: firewall, external, service, endpoint

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
    auto found = ++depth_ > deepest ? Reach{} : walk(chain);
    --depth_;
    return known_[chain] = std::move(found);
  }

 private:
  Reach walk(const std::string& chain) {
    Reach all;
    Reach own;  // from rules only for inside clients, whose packets skip the rest
    const auto steps = rules_.chains.find(chain);
    if (steps == rules_.chains.end()) return all;
    for (const auto& step : steps->second) {
      take(step.clients == RuleClients::inside ? own : all, step);
    }
    if (!own.inside.empty()) {
      all.inside = std::move(own.inside);
    }
    sort_endpoints(all.outside);
    sort_endpoints(all.inside);
    all.affinity_seconds = std::max(all.affinity_seconds, own.affinity_seconds);
    return all;
  }

  void take(Reach& into, const ProxyStep& step) {
    into.affinity_seconds = std::max(into.affinity_seconds, step.affinity_seconds);
    add(into.outside, step.endpoints);
    add(into.inside, step.endpoints);
    for (const auto& chain : step.chains) {
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

void name(ServedFrontend& frontend, const ProxyEntry& entry) {
  if (frontend.service.empty()) frontend.service = entry.service;
}

}  // namespace

ServedFrontends served_by(const ProxyRules& rules) {
  Walker walker(rules);
  ServedFrontends served;
  for (const auto& entry : rules.entries) {
    if (entry.chain.empty() || served.contains(entry.id)) continue;
    auto& frontend = served[entry.id];
    name(frontend, entry);
    const auto& reach = walker.reach(entry.chain);
    frontend.outside.endpoints = reach.outside;
    frontend.inside.endpoints = reach.inside;
    frontend.affinity_seconds = reach.affinity_seconds;
  }
  for (const auto& entry : rules.entries) {
    if (!entry.chain.empty()) continue;
    auto& frontend = served[entry.id];
    name(frontend, entry);
    frontend.outside.empty = frontend.inside.empty = entry.refusal;
  }
  for (const auto& id : rules.limited) {
    if (const auto found = served.find(id); found != served.end()) found->second.clients = Clients::limited;
  }
  return served;
}

}  // namespace lb::agent
