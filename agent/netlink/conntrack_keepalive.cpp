// SPDX-License-Identifier: Apache-2.0
// The tables in nft's syntax: table ip sluice-nat-sluice { chain keeps-nat { type nat hook postrouting
// priority srcnat; ct status dnat accept } } and table ip sluice-ct-sluice { chain keeps-tracking { ct state
// new } }
#include "agent/netlink/conntrack_keepalive.hpp"

#include <fmt/format.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "agent/netlink/nf_batch.hpp"
#include "agent/netlink/nf_requests.hpp"
#include "agent/netlink/nf_tables.hpp"

namespace lb::agent {
namespace {

using netlink::Bytes;
using netlink::Request;
using netlink::Wanted;

constexpr std::string_view nat_chain = "keeps-nat";
constexpr std::string_view tracking_chain = "keeps-tracking";
constexpr std::uint32_t register_of_match = NFT_REG_1;
constexpr std::uint32_t no_bits = 0;
constexpr std::array<std::pair<int, const char*>, 2> families = {{{AF_INET, "ip"}, {AF_INET6, "ip6"}}};

Bytes bytes_of(const std::uint32_t& value) { return std::as_bytes(std::span(&value, 1)); }

/// ct status dnat, ct state new: the rule continues if the conntrack word `key` has a bit of `mask`.
void add_match(Request& expressions, nft_ct_keys key, std::uint32_t mask) {
  constexpr auto in = register_of_match;
  add_expression(expressions, "ct", [key](Request& data) {
    data.add_network_order(NFTA_CT_KEY, std::uint32_t{key}).add_network_order(NFTA_CT_DREG, in);
  });
  add_expression(expressions, "bitwise", [mask](Request& data) {
    data.add_network_order(NFTA_BITWISE_SREG, in).add_network_order(NFTA_BITWISE_DREG, in);
    data.add_network_order(NFTA_BITWISE_LEN, std::uint32_t{sizeof(std::uint32_t)});
    add_value(data, NFTA_BITWISE_MASK, bytes_of(mask));
    add_value(data, NFTA_BITWISE_XOR, bytes_of(no_bits));
  });
  add_expression(expressions, "cmp", [](Request& data) {
    data.add_network_order(NFTA_CMP_SREG, in).add_network_order(NFTA_CMP_OP, std::uint32_t{NFT_CMP_NEQ});
    add_value(data, NFTA_CMP_DATA, bytes_of(no_bits));
  });
}

/// Makes a table of one chain with one rule. `base` adds the hook of a base chain; if it adds nothing, no
/// packet reaches the chain.
boost::system::error_code make_table(int family, std::string_view table, std::string_view chain,
                                     const std::function<void(Request&)>& base,
                                     const std::function<void(Request&)>& rule) {
  if (has_nf_table(family, table)) {
    return {};
  }
  NfBatch batch(family);
  batch.add(new_nf_table(batch, table));
  auto request = new_nf_chain(batch, table, chain);
  base(request);
  batch.add(std::move(request));
  return batch.commit(new_nf_rule(batch, table, chain, Wanted::one, rule));
}

std::string table_of(std::string_view prefix, const std::filesystem::path& pins) {
  const auto name = pins.filename().empty() ? pins.parent_path().filename() : pins.filename();
  return fmt::format("{}{}", prefix, name.string());
}

}  // namespace

std::string kept_nat_table(const std::filesystem::path& pins) { return table_of("sluice-nat-", pins); }

std::string kept_tracking_table(const std::filesystem::path& pins) { return table_of("sluice-ct-", pins); }

boost::system::error_code keep_nat(int family, std::string_view table) {
  const auto base = [](Request& chain) { add_hook(chain, "nat", NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC); };
  return make_table(family, table, nat_chain, base, [](Request& rule) {
    add_match(rule, NFT_CT_STATUS, IPS_DST_NAT);
    add_verdict(rule, NF_ACCEPT);
  });
}

boost::system::error_code keep_tracking(int family, std::string_view table) {
  return make_table(
      family, table, tracking_chain, [](Request&) {},
      [](Request& rule) { add_match(rule, NFT_CT_STATE, NF_CT_STATE_BIT(IP_CT_NEW)); });
}

boost::system::error_code keep_in_both_families(boost::system::error_code (*keep)(int, std::string_view),
                                                std::string_view table) {
  const auto error = keep(AF_INET, table);
  static_cast<void>(keep(AF_INET6, table));
  return error;
}

std::vector<std::string> families_with(std::string_view table) {
  std::vector<std::string> found;
  for (const auto& [family, name] : families) {
    if (has_nf_table(family, table)) {
      found.emplace_back(name);
    }
  }
  return found;
}

void remove_kept(std::string_view table) {
  for (const auto& [family, name] : families) {
    if (has_nf_table(family, table)) {
      static_cast<void>(remove_nf_table(family, table));
    }
  }
}

}  // namespace lb::agent
