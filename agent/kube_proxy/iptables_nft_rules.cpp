// iptables-nft writes addresses, protocols and, since 1.8.9, ports as nf_tables expressions, and the rest as
// xtables extensions.
#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>

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

class RuleReader {
 public:
  RuleReader(const std::string& chain, int family) : family_(family) { rule_.chain = chain; }

  IptablesRule read(const NfRule& rule) {
    for (const auto& each : expressions_of(rule)) {
      take(each);
    }
    return std::move(rule_);
  }

 private:
  void take(const NfExpression& each) {
    if (each.name == "payload" || each.name == "meta") {
      load(loaded_field(each, family_));
    } else if (each.name == "bitwise") {
      if (field_ == PacketField::destination) load(PacketField::destination_part);
    } else if (each.name == "cmp") {
      compare(each.data);
    } else if (each.name == "match") {
      take_match(rule_, match_of(each.data));
    } else if (each.name == "target") {
      take_target(rule_, target_of(each.data), family_);
    } else if (each.name == "reject") {
      rule_.target = "REJECT";
    } else if (each.name == "immediate") {
      take_immediate(each);
    } else if (each.name == "nat") {
      if ((rule_.endpoint = registers_.target_of(each))) rule_.target = "DNAT";
    }
  }

  void load(PacketField field) {
    field_ = field;
    if (field == PacketField::source || field == PacketField::device) rule_.clients = RuleClients::inside;
    if (field == PacketField::destination_part) rule_.match = IptablesRule::Destination::range;
  }

  void compare(Bytes data) {
    const auto value = attribute(attribute(data, NFTA_CMP_DATA), NFTA_DATA_VALUE);
    const bool equal =
        be32toh(netlink::read<std::uint32_t>(attribute(data, NFTA_CMP_OP)).value_or(0)) == NFT_CMP_EQ;
    if (field_ == PacketField::destination) {
      using Destination = IptablesRule::Destination;
      const auto address = address_of(value.data(), value.size());
      rule_.match = equal && address ? Destination::address : Destination::range;
      if (address) rule_.destination = *address;
    } else if (field_ == PacketField::destination_port && equal) {
      rule_.port = port_of(value);
    } else if (field_ == PacketField::protocol && equal) {
      rule_.protocol = static_cast<lb_protocol>(netlink::read<std::uint8_t>(value).value_or(0));
    }
  }

  void take_immediate(const NfExpression& each) {
    const auto verdict = verdict_of(attribute(each.data, NFTA_IMMEDIATE_DATA));
    if (!verdict) {
      registers_.load(each);
    } else if (verdict->chain.empty()) {
      rule_.target = verdict->code == NF_DROP ? "DROP" : "";
    } else {
      rule_.target = verdict->chain;
    }
  }

  int family_;
  IptablesRule rule_;
  PacketField field_ = PacketField::other;  ///< the field loaded last
  NatRegisters registers_;
};

}  // namespace

std::vector<IptablesRule> nft_iptables_rules(const NfDump& dump, int family) {
  std::vector<IptablesRule> rules;
  rules.reserve(dump.rules().size());
  for (const auto& each : dump.rules()) {
    rules.push_back(RuleReader(each.chain, family).read(each));
  }
  return rules;
}

}  // namespace lb::agent
