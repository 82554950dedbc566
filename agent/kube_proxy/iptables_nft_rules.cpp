// SPDX-License-Identifier: Apache-2.0
// iptables-nft writes addresses, protocols and, since 1.8.8, ports as nf_tables expressions, and the rest as
// xtables extensions. Which of the two, and in which order, changes with its version.
#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>

#include <string_view>
#include <utility>

#include "agent/kube_proxy/iptables_rules.hpp"
#include "agent/kube_proxy/nf_rule_reader.hpp"

namespace lb::agent {
namespace {

using netlink::attribute;
using netlink::Bytes;
using netlink::read;
using netlink::text_of;

XtExtension match_of(Bytes data) {
  return {text_of(attribute(data, NFTA_MATCH_NAME)),
          be32toh(read<std::uint32_t>(attribute(data, NFTA_MATCH_REV)).value_or(0)),
          attribute(data, NFTA_MATCH_INFO)};
}

XtExtension target_of(Bytes data) {
  return {text_of(attribute(data, NFTA_TARGET_NAME)),
          be32toh(read<std::uint32_t>(attribute(data, NFTA_TARGET_REV)).value_or(0)),
          attribute(data, NFTA_TARGET_INFO)};
}

/// Expressions that neither choose packets nor end a chain.
bool is_neutral(std::string_view name) {
  return name == "counter" || name == "log" || name == "last" || name == "notrack";
}

class RuleReader {
 public:
  explicit RuleReader(int family) : family_(family), reader_(family) {}

  IptablesRule read(const NfRule& rule) {
    rule_.chain = rule.chain;
    rule_.comment = rule.comment;
    for (const auto& each : expressions_of(rule)) {
      if (!reader_.take(each)) {
        take(each);
      }
    }
    merge(reader_.conditions());
    return std::move(rule_);
  }

 private:
  void take(const NfExpression& each) {
    if (each.name == "match") {
      take_match(rule_, match_of(each.data));
    } else if (each.name == "target") {
      take_target(rule_, target_of(each.data), family_);
    } else if (each.name == "reject") {
      rule_.target = "REJECT";
    } else if (each.name == "immediate") {
      take_verdict(verdict_of(attribute(each.data, NFTA_IMMEDIATE_DATA)).value_or(NfVerdict{}));
    } else if (each.name == "nat") {
      rule_.endpoint = reader_.target_of(each);
      rule_.target = "DNAT";
    } else if (!is_neutral(each.name)) {
      rule_.not_understood("expression " + each.name);
    }
  }

  void take_verdict(const NfVerdict& verdict) {
    rule_.target = !verdict.chain.empty() ? verdict.chain : verdict_name(verdict.code);
  }

  /// Adds the conditions of expressions to those of extensions.
  void merge(PacketConditions conditions) {
    rule_.match = conditions.match;
    rule_.destination = conditions.destination;
    rule_.protocol = conditions.protocol;
    if (rule_.ports.empty()) {
      rule_.ports = std::move(conditions.ports);
    }
    if (conditions.clients == RuleClients::inside) {
      rule_.clients = RuleClients::inside;
    }
    rule_.not_understood(std::move(conditions.unread));
  }

  int family_;
  NfRuleReader reader_;
  IptablesRule rule_;
};

}  // namespace

std::vector<IptablesRule> nft_iptables_rules(const NfDump& dump, int family) {
  std::vector<IptablesRule> rules;
  rules.reserve(dump.rules().size());
  for (const auto& each : dump.rules()) {
    rules.push_back(RuleReader(family).read(each));
  }
  return rules;
}

}  // namespace lb::agent
