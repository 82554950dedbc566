// SPDX-License-Identifier: Apache-2.0
// The chains and rules are those of pkg/proxy/iptables/proxier.go of Kubernetes.
#include "agent/kube_proxy/iptables_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace lb::agent {
namespace {

constexpr std::string_view services = "KUBE-SERVICES";
constexpr std::string_view external_services = "KUBE-EXTERNAL-SERVICES";
constexpr std::string_view node_ports = "KUBE-NODEPORTS";
constexpr std::string_view firewall_prefix = "KUBE-FW-";
constexpr std::array<std::string_view, 6> service_prefixes = {"KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-",
                                                              "KUBE-SEP-", "KUBE-XLB-", firewall_prefix};

bool is_service_chain(std::string_view name) {
  return std::ranges::any_of(service_prefixes, [name](auto prefix) { return name.starts_with(prefix); });
}

/// The service at the beginning of "default/web:http cluster IP".
std::string service_of(std::string_view comment) { return std::string(comment.substr(0, comment.find(' '))); }

/// Targets of rules that select no backend, in whose conditions nothing is read.
constexpr std::array<std::string_view, 10> other_targets = {
    "",    "KUBE-MARK-MASQ", "KUBE-MARK-DROP", "KUBE-NODEPORTS", "MARK", "CONNMARK",
    "LOG", "NFLOG",          "TRACE",          "ACCEPT"};

bool selects(const IptablesRule& rule) {
  return std::ranges::find(other_targets, rule.target) == other_targets.end();
}

/// The frontends that the rule is for: none if it lacks a port or a protocol.
std::vector<FrontendId> ids_of(const IptablesRule& rule, int family) {
  using Destination = IptablesRule::Destination;
  std::vector<FrontendId> ids;
  if (rule.match == Destination::range || rule.protocol == LB_ANY_PROTOCOL) {
    return ids;
  }
  const auto address = rule.match == Destination::any ? node_port_address(family) : rule.destination;
  for (const auto port : rule.ports) {
    ids.push_back({address, port, rule.protocol});
  }
  return ids;
}

/// What is not understood of a rule that leads to a backend or refuses; empty: nothing.
std::string unread(const IptablesRule& rule, const std::vector<FrontendId>& ids) {
  if (!rule.unread.empty()) {
    return rule.unread;
  }
  if (rule.protocol == LB_ANY_PROTOCOL) {
    return "no protocol";
  }
  if (rule.ports.empty()) {
    return "no port";
  }
  return ids.empty() ? "a range of addresses" : "";
}

void add_unread(ProxyRules& rules, std::string_view table, const IptablesRule& rule, std::string_view what) {
  rules.unread.push_back(
      fmt::format("{} {}{}{}: {}", table, rule.chain, rule.comment.empty() ? "" : ", ", rule.comment, what));
}

ProxyRule proxy_rule_of(const IptablesRule& rule) {
  ProxyRule converted;
  // A firewall chain's clients are handled separately.
  converted.clients = rule.chain.starts_with(firewall_prefix) ? RuleClients::all : rule.clients;
  converted.affinity_seconds = rule.recent_seconds;
  if (rule.recent_seconds == 0 && is_service_chain(rule.target)) {
    converted.chains.push_back(rule.target);
  }
  if (rule.endpoint) {
    converted.endpoints.push_back(*rule.endpoint);
  }
  return converted;
}

/// A rule of a service's chain.
void take_choice(ProxyRules& rules, const IptablesRule& rule) {
  if (!selects(rule)) {
    return;
  }
  if (!rule.unread.empty()) {
    return add_unread(rules, "nat", rule, rule.unread);
  }
  if (!is_service_chain(rule.target) && !rule.endpoint) {
    return add_unread(rules, "nat", rule, "target " + rule.target);
  }
  rules.chains[rule.chain].push_back(proxy_rule_of(rule));
}

/// With localhostNodePorts kube-proxy has another rule for each node port, for the range of IPv4's loopback.
bool is_localhost_node_port(const IptablesRule& rule) {
  return rule.chain == node_ports && rule.match == IptablesRule::Destination::range;
}

void take_nat(ProxyRules& rules, const IptablesRule& rule, int family) {
  if (is_service_chain(rule.chain)) {
    return take_choice(rules, rule);
  }
  if ((rule.chain != services && rule.chain != node_ports) || !selects(rule) ||
      is_localhost_node_port(rule)) {
    return;
  }
  const auto ids = ids_of(rule, family);
  auto what = unread(rule, ids);
  if (what.empty() && !is_service_chain(rule.target)) {
    what = "target " + rule.target;
  }
  if (!what.empty()) {
    return add_unread(rules, "nat", rule, what);
  }
  for (const auto& id : ids) {
    rules.frontend_rules.push_back({id, service_of(rule.comment), rule.target, EmptyVerdict::reject});
    if (rule.target.starts_with(firewall_prefix)) {
      rules.limited.push_back(id);
    }
  }
}

void take_filter(ProxyRules& rules, const IptablesRule& rule, int family) {
  const bool drops = rule.target == "DROP";
  if (rule.chain != services && rule.chain != external_services) {
    return;
  }
  if (!drops && rule.target != "REJECT") {
    return;
  }
  const auto ids = ids_of(rule, family);
  if (const auto what = unread(rule, ids); !what.empty()) {
    return add_unread(rules, "filter", rule, what);
  }
  for (const auto& id : ids) {
    rules.frontend_rules.push_back(
        {id, service_of(rule.comment), "", drops ? EmptyVerdict::drop : EmptyVerdict::reject});
  }
}

}  // namespace

ProxyRules iptables_rules(std::span<const IptablesRule> nat, std::span<const IptablesRule> filter,
                          int family) {
  ProxyRules rules;
  for (const auto& rule : nat) {
    take_nat(rules, rule, family);
  }
  for (const auto& rule : filter) {
    take_filter(rules, rule, family);
  }
  return rules;
}

}  // namespace lb::agent
