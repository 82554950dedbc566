// SPDX-License-Identifier: Apache-2.0
#include "agent/netlink/nf_requests.hpp"

#include <linux/netfilter/nf_tables.h>

namespace lb::agent {

using netlink::Bytes;
using netlink::Request;
using netlink::Wanted;

Request new_nf_table(const NfBatch& batch, std::string_view table) {
  auto request = batch.request(NFT_MSG_NEWTABLE);
  request.with_flags(NLM_F_CREATE).add(NFTA_TABLE_NAME, table);
  return request;
}

Request new_nf_chain(const NfBatch& batch, std::string_view table, std::string_view chain) {
  auto request = batch.request(NFT_MSG_NEWCHAIN);
  request.with_flags(NLM_F_CREATE).add(NFTA_CHAIN_TABLE, table).add(NFTA_CHAIN_NAME, chain);
  return request;
}

Request new_nf_rule(const NfBatch& batch, std::string_view table, std::string_view chain, Wanted wanted,
                    const std::function<void(Request&)>& expressions) {
  auto request = batch.request(NFT_MSG_NEWRULE, wanted);
  request.with_flags(NLM_F_CREATE | NLM_F_APPEND).add(NFTA_RULE_TABLE, table).add(NFTA_RULE_CHAIN, chain);
  request.nest(NFTA_RULE_EXPRESSIONS, expressions);
  return request;
}

void add_hook(Request& chain, std::string_view type, std::uint32_t hook, int priority) {
  chain.nest(NFTA_CHAIN_HOOK, [&](Request& place) {
    place.add_network_order(NFTA_HOOK_HOOKNUM, hook);
    place.add_network_order(NFTA_HOOK_PRIORITY, static_cast<std::uint32_t>(priority));
  });
  chain.add(NFTA_CHAIN_TYPE, type);
}

void add_expression(Request& expressions, std::string_view name, const std::function<void(Request&)>& data) {
  expressions.nest(NFTA_LIST_ELEM,
                   [&](Request& element) { element.add(NFTA_EXPR_NAME, name).nest(NFTA_EXPR_DATA, data); });
}

void add_verdict(Request& expressions, std::uint32_t code) {
  add_expression(expressions, "immediate", [code](Request& data) {
    data.add_network_order(NFTA_IMMEDIATE_DREG, std::uint32_t{NFT_REG_VERDICT});
    data.nest(NFTA_IMMEDIATE_DATA, [code](Request& value) {
      value.nest(NFTA_DATA_VERDICT,
                 [code](Request& verdict) { verdict.add_network_order(NFTA_VERDICT_CODE, code); });
    });
  });
}

void add_value(Request& request, std::uint16_t type, Bytes value) {
  request.nest(type, [&](Request& data) { data.add_bytes(NFTA_DATA_VALUE, value); });
}

}  // namespace lb::agent
