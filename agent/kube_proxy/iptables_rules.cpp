// The chains and rules are those of pkg/proxy/iptables/proxier.go of Kubernetes.
#include "agent/kube_proxy/iptables_rules.hpp"

#include <algorithm>
#include <array>

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

std::optional<FrontendId> id_of(const IptablesRule& rule, int family) {
  using Destination = IptablesRule::Destination;
  if (!rule.port || rule.match == Destination::range) return std::nullopt;
  const bool node_port = rule.match == Destination::any;
  return FrontendId{node_port ? node_port_address(family) : rule.destination, *rule.port, rule.protocol};
}

ProxyRule proxy_rule_of(const IptablesRule& rule) {
  ProxyRule converted;
  // A firewall chain's clients are handled separately.
  converted.clients = rule.chain.starts_with(firewall_prefix) ? RuleClients::all : rule.clients;
  converted.affinity_seconds = rule.recent_seconds;
  if (rule.recent_seconds == 0 && is_service_chain(rule.target)) converted.chains.push_back(rule.target);
  if (rule.endpoint) converted.endpoints.push_back(*rule.endpoint);
  return converted;
}

void take_nat(ProxyRules& rules, const IptablesRule& rule, int family) {
  if (is_service_chain(rule.chain)) {
    rules.chains[rule.chain].push_back(proxy_rule_of(rule));
    return;
  }
  const auto id = id_of(rule, family);
  if ((rule.chain != services && rule.chain != node_ports) || !id || !is_service_chain(rule.target)) return;
  rules.frontend_rules.push_back({*id, service_of(rule.comment), rule.target, EmptyVerdict::reject});
  if (rule.target.starts_with(firewall_prefix)) rules.limited.push_back(*id);
}

void take_filter(ProxyRules& rules, const IptablesRule& rule, int family) {
  const auto id = id_of(rule, family);
  const bool drops = rule.target == "DROP";
  if ((rule.chain != services && rule.chain != external_services) || !id) return;
  if (!drops && rule.target != "REJECT") return;
  rules.frontend_rules.push_back(
      {*id, service_of(rule.comment), "", drops ? EmptyVerdict::drop : EmptyVerdict::reject});
}

}  // namespace

ProxyRules iptables_rules(std::span<const IptablesRule> nat, std::span<const IptablesRule> filter,
                          int family) {
  ProxyRules rules;
  for (const auto& rule : nat) take_nat(rules, rule, family);
  for (const auto& rule : filter) take_filter(rules, rule, family);
  return rules;
}

}  // namespace lb::agent
