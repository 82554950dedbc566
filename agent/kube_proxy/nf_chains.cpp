// SPDX-License-Identifier: Apache-2.0
// nf_tables messages: dumps, and batches that the kernel commits as one.
#include "agent/kube_proxy/nf_chains.hpp"

#include <endian.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "agent/netlink/netfilter.hpp"
#include "agent/netlink/netlink.hpp"
#include "agent/netlink/nf_batch.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;
using netlink::attribute;
using netlink::Bytes;
using netlink::read;
using netlink::Request;
using netlink::text_of;
using netlink::Wanted;

Request request_of(int message, Wanted wanted, int family) {
  return netfilter_request(NFNL_SUBSYS_NFTABLES, message, wanted, family);
}

void read_chain(ChainTable& into, std::string_view table, Bytes body) {
  const auto attributes = netlink::after(body, sizeof(nfgenmsg));
  if (text_of(attribute(attributes, NFTA_CHAIN_TABLE)) != table) {
    return;
  }
  auto name = text_of(attribute(attributes, NFTA_CHAIN_NAME));
  if (!attribute(attributes, NFTA_CHAIN_HOOK).empty()) {
    into.base.insert(name);
  }
  into.chains.push_back(std::move(name));
}

/// The chain to which an expression jumps; empty: none.
std::string led_to_by(Bytes expression) {
  if (text_of(attribute(expression, NFTA_EXPR_NAME)) != "immediate") {
    return {};
  }
  const auto data = attribute(attribute(expression, NFTA_EXPR_DATA), NFTA_IMMEDIATE_DATA);
  return text_of(attribute(attribute(data, NFTA_DATA_VERDICT), NFTA_VERDICT_CHAIN));
}

void read_rule(ChainTable& into, std::string_view table, Bytes body) {
  const auto attributes = netlink::after(body, sizeof(nfgenmsg));
  if (text_of(attribute(attributes, NFTA_RULE_TABLE)) != table) {
    return;
  }
  const auto handle = read<std::uint64_t>(attribute(attributes, NFTA_RULE_HANDLE)).value_or(0);
  netlink::for_each_attribute(attribute(attributes, NFTA_RULE_EXPRESSIONS), [&](unsigned short, Bytes each) {
    if (auto chain = led_to_by(each); !chain.empty()) {
      into.jumps.push_back(
          {text_of(attribute(attributes, NFTA_RULE_CHAIN)), be64toh(handle), std::move(chain)});
    }
  });
}

}  // namespace

void take_nf_chain_message(ChainTable& into, std::string_view table, const nlmsghdr& head, Bytes body) {
  const auto kind = head.nlmsg_type & 0xffU;
  if (kind == NFT_MSG_NEWCHAIN) {
    read_chain(into, table, body);
  }
  if (kind == NFT_MSG_NEWRULE) {
    read_rule(into, table, body);
  }
}

ChainTable read_nf_table(int family, std::string_view table) {
  ChainTable found;
  const auto socket = open_netfilter();
  const auto take = [&](const auto& head, Bytes body) { take_nf_chain_message(found, table, head, body); };
  static_cast<void>(netlink::ask(socket.get(), request_of(NFT_MSG_GETCHAIN, Wanted::all, family), take));
  if (found.chains.empty()) {
    return found;
  }
  auto rules = request_of(NFT_MSG_GETRULE, Wanted::all, family);
  rules.add(NFTA_RULE_TABLE, table);
  static_cast<void>(netlink::ask(socket.get(), std::move(rules), take));
  return found;
}

error_code remove_nf_chains(int family, std::string_view table, const ChainRemoval& removal) {
  if (removal.chains.empty()) {
    return {};
  }
  NfBatch batch(family);
  for (const auto& jump : removal.jumps) {
    auto request = batch.request(NFT_MSG_DELRULE);
    request.add(NFTA_RULE_TABLE, table).add(NFTA_RULE_CHAIN, jump.from);
    request.add_network_order(NFTA_RULE_HANDLE, jump.rule);
    batch.add(std::move(request));
  }
  for (const auto& chain : removal.chains) {
    auto request = batch.request(NFT_MSG_DELRULE);  // without a handle: all rules of the chain
    request.add(NFTA_RULE_TABLE, table).add(NFTA_RULE_CHAIN, chain);
    batch.add(std::move(request));
  }
  const auto delete_chain = [&](const std::string& chain, Wanted wanted) {
    auto request = batch.request(NFT_MSG_DELCHAIN, wanted);
    request.add(NFTA_CHAIN_TABLE, table).add(NFTA_CHAIN_NAME, chain);
    return request;
  };
  for (std::size_t at = 0; at + 1 < removal.chains.size(); ++at) {
    batch.add(delete_chain(removal.chains[at], Wanted::nothing));
  }
  return batch.commit(delete_chain(removal.chains.back(), Wanted::one));
}

}  // namespace lb::agent
