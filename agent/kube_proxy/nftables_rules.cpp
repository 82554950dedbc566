// SPDX-License-Identifier: Apache-2.0
// The maps and chains are those of pkg/proxy/nftables/proxier.go of Kubernetes. Endpoints are values of a map
// from a random number, either directly or, with session affinity, by the chain of each.
#include "agent/kube_proxy/nftables_rules.hpp"

#include <fmt/format.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <sys/socket.h>

#include <cstddef>
#include <optional>
#include <utility>

#include "agent/kube_proxy/nf_rule_reader.hpp"

namespace lb::agent {
namespace {

using netlink::attribute;
using netlink::Bytes;
using netlink::text_of;

constexpr std::string_view affinity_prefix = "affinity-";  // prefix of sets
constexpr std::size_t padded = 4;                          // alignment of each part of a concatenation

std::size_t address_size(int family) { return family == AF_INET ? 4 : 16; }

/// Names of services' chains have a slash; those of chains that mark, check or reject have none.
bool is_service_chain(std::string_view name) { return name.find('/') != std::string_view::npos; }

Bytes part(Bytes bytes, std::size_t at) { return bytes.size() < at ? Bytes() : bytes.subspan(at); }

/// Expressions that neither choose packets nor select anything: those of session affinity and random choice
/// do so by a set or a map that follows.
bool is_neutral(std::string_view name) {
  return name == "counter" || name == "numgen" || name == "dynset" || name == "log" || name == "last";
}

class RuleReader {
 public:
  RuleReader(const NfDump& dump, int family) : dump_(dump), family_(family), reader_(family) {}

  /// `unread`: the first part that is not understood of a rule that leads to an endpoint; empty: none.
  ProxyRule read(const NfRule& rule, std::string& unread) {
    for (const auto& each : expressions_of(rule)) {
      if (!reader_.take(each)) {
        take(each);
      }
    }
    const auto conditions = reader_.conditions();
    rule_.clients = conditions.clients;
    const bool selects = !rule_.chains.empty() || !rule_.endpoints.empty() || selects_unknown_;
    if (selects) {
      unread = unread_.empty() ? conditions.unread : unread_;
    }
    return std::move(rule_);
  }

 private:
  void take(const NfExpression& each) {
    if (each.name == "immediate") {
      follow(verdict_of(attribute(each.data, NFTA_IMMEDIATE_DATA)).value_or(NfVerdict{}));
    } else if (each.name == "lookup") {
      take_lookup(each.data);
    } else if (each.name == "nat") {
      take_nat(each);
    } else if (!is_neutral(each.name)) {
      not_understood("expression " + each.name);
    }
  }

  void not_understood(std::string what) {
    if (unread_.empty()) {
      unread_ = std::move(what);
    }
  }

  void take_nat(const NfExpression& nat) {
    if (const auto target = reader_.target_of(nat)) {
      rule_.endpoints.push_back(*target);
    } else if (rule_.endpoints.empty()) {  // otherwise a map's
      selects_unknown_ = true;
      not_understood("an address that is neither written in the rule nor in a map");
    }
  }

  void follow(const NfVerdict& verdict) {
    if (is_service_chain(verdict.chain) && rule_.affinity_seconds == 0) {
      rule_.chains.push_back(verdict.chain);
    }
  }

  void take_lookup(Bytes data) {
    const auto name = text_of(attribute(data, NFTA_LOOKUP_SET));
    const auto* set = dump_.find_set(name);
    if (set == nullptr) {
      return not_understood("set " + name);
    }
    if (name.starts_with(affinity_prefix)) {
      rule_.affinity_seconds = static_cast<std::uint32_t>(set->timeout_ms / 1000);
    }
    for (const auto& element : set->elements) {
      take_element(element);
    }
  }

  void take_element(const NfElement& element) {
    if (element.verdict) {
      follow(*element.verdict);
      return;
    }
    const auto size = address_size(family_);
    if (element.value.size() < size + sizeof(std::uint16_t)) {
      return;
    }
    if (const auto address = address_of(element.value.data(), size)) {
      rule_.endpoints.push_back({*address, port_of(part(element.value, size))});
    }
  }

  const NfDump& dump_;
  int family_;
  NfRuleReader reader_;
  ProxyRule rule_;
  std::string unread_;
  bool selects_unknown_ = false;
};

/// Parses an element's key: [address .] protocol . port.
std::optional<FrontendId> id_of(const NfElement& element, int family, std::size_t address_bytes) {
  const Bytes key(element.key);
  if (key.size() < address_bytes + padded + sizeof(std::uint16_t)) {
    return std::nullopt;
  }
  const auto address =
      address_bytes == 0 ? std::optional(node_port_address(family)) : address_of(key.data(), address_bytes);
  if (!address) {
    return std::nullopt;
  }
  const auto protocol = netlink::read<std::uint8_t>(part(key, address_bytes)).value_or(0);
  return FrontendId{*address, port_of(part(key, address_bytes + padded)), static_cast<lb_protocol>(protocol)};
}

FrontendRule frontend_rule_of(const NfElement& element, const FrontendId& id) {
  const auto verdict = element.verdict.value_or(NfVerdict{});
  if (is_service_chain(verdict.chain)) {
    return {id, service_of_chain(verdict.chain), verdict.chain, EmptyVerdict::reject};
  }
  return {id, element.comment, "", verdict.code == NF_DROP ? EmptyVerdict::drop : EmptyVerdict::reject};
}

template <class Visit>
void for_each_element(const NfDump& dump, std::string_view map, Visit visit) {
  if (const auto* set = dump.find_set(map)) {
    for (const auto& element : set->elements) {
      visit(element);
    }
  }
}

}  // namespace

std::string service_of_chain(std::string_view chain) {
  constexpr std::string_view cut = "...";
  const auto hash = chain.find('-');
  const auto name = hash == std::string_view::npos ? hash : chain.find('-', hash + 1);
  if (name == std::string_view::npos || chain.ends_with(cut)) {
    return {};
  }
  const auto service = chain.substr(name + 1);
  const auto port = service.rfind('/');
  const auto protocol = port == std::string_view::npos || port == 0 ? port : service.rfind('/', port - 1);
  if (protocol == std::string_view::npos || protocol == 0) {
    return {};
  }
  std::string text(service.substr(0, protocol));
  if (port + 1 < service.size()) {
    text.append(":").append(service.substr(port + 1));
  }
  return text;
}

ProxyRules nftables_rules(const NfDump& dump, int family) {
  ProxyRules rules;
  for (const auto& rule : dump.rules()) {
    if (!is_service_chain(rule.chain)) {
      continue;
    }
    std::string unread;
    auto read = RuleReader(dump, family).read(rule, unread);
    if (unread.empty()) {
      rules.chains[rule.chain].push_back(std::move(read));
    } else {
      rules.unread.push_back(fmt::format("{} {}: {}", nftables_table, rule.chain, unread));
    }
  }
  const auto add = [&](std::size_t address_bytes) {
    return [&rules, family, address_bytes](const NfElement& element) {
      if (const auto id = id_of(element, family, address_bytes)) {
        rules.frontend_rules.push_back(frontend_rule_of(element, *id));
      }
    };
  };
  for_each_element(dump, "service-ips", add(address_size(family)));
  for_each_element(dump, "no-endpoint-services", add(address_size(family)));
  for_each_element(dump, "service-nodeports", add(0));
  for_each_element(dump, "no-endpoint-nodeports", add(0));
  for_each_element(dump, "firewall-ips", [&](const NfElement& element) {
    if (const auto id = id_of(element, family, address_size(family))) {
      rules.limited.push_back(*id);
    }
  });
  return rules;
}

}  // namespace lb::agent
