// SPDX-License-Identifier: Apache-2.0
// Matches and targets of xtables, by the kernel's structures.
#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/xt_addrtype.h>
#include <linux/netfilter/xt_multiport.h>
#include <linux/netfilter/xt_recent.h>
#include <linux/netfilter/xt_tcpudp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "agent/kube_proxy/iptables_rules.hpp"

namespace lb::agent {
namespace {

using netlink::Bytes;
using netlink::read;

/// The beginning of xt_sctp_info, whose header is not valid C++.
struct SctpInfo {
  std::uint16_t dpts[2];  ///< first and last
  std::uint16_t spts[2];
  std::uint32_t chunks[256 / sizeof(std::uint32_t)];
  std::uint32_t chunk_match_type;
  std::uint8_t chunk_flags[4][3];
  std::int32_t flag_count;
  std::uint32_t flags;
  std::uint32_t invflags;
};
constexpr std::uint32_t sctp_destination = 2;  // XT_SCTP_DEST_PORTS

/// Takes the port of a range that has only one; nothing of a range of all.
void take_ports(IptablesRule& rule, std::uint16_t first, std::uint16_t last) {
  if (first == last) {
    rule.ports = {first};
  } else if (first != 0 || last != 0xffff) {
    rule.not_understood("a range of ports");
  }
}

/// Of xt_tcp and xt_udp.
template <class Info>
void take_port(IptablesRule& rule, const std::optional<Info>& info) {
  if (!info || info->invflags != 0 || info->spts[0] != 0 || info->spts[1] != 0xffff) {
    return rule.not_understood("source ports, or ports that are excluded");
  }
  take_ports(rule, info->dpts[0], info->dpts[1]);
}

void take_tcp(IptablesRule& rule, const std::optional<xt_tcp>& info) {
  if (info && (info->option != 0 || info->flg_mask != 0)) {
    rule.not_understood("TCP's flags or options");
  }
  take_port(rule, info);
}

void take_sctp(IptablesRule& rule, const std::optional<SctpInfo>& info) {
  if (!info || info->invflags != 0 || (info->flags & ~sctp_destination) != 0) {
    return rule.not_understood("SCTP's source ports or chunks");
  }
  if (info->flags == sctp_destination) {
    take_ports(rule, info->dpts[0], info->dpts[1]);
  }
}

/// Revisions 0 and 1 begin alike; ranges and exclusions are only in 1.
void take_multiport(IptablesRule& rule, const XtExtension& match) {
  const auto info = read<xt_multiport>(match.info);
  const auto more = match.revision == 0
                        ? xt_multiport_v1{}
                        : read<xt_multiport_v1>(match.info).value_or(xt_multiport_v1{{}, {}, {}, {}, 1});
  const bool ranges = std::ranges::any_of(more.pflags, [](auto flag) { return flag != 0; });
  if (!info || info->flags != XT_MULTIPORT_DESTINATION || more.invert != 0 || ranges ||
      info->count > XT_MULTI_PORTS) {
    return rule.not_understood("source ports, or ranges of ports");
  }
  rule.ports.assign(std::begin(info->ports), std::begin(info->ports) + info->count);
}

void take_recent(IptablesRule& rule, const std::optional<xt_recent_mtinfo>& info) {
  if (info && (info->check_set & XT_RECENT_CHECK) != 0) {
    rule.recent_seconds = info->seconds;
  }
}

/// Revisions 0 and 1 begin alike.
void take_address_type(IptablesRule& rule, Bytes bytes) {
  const auto info = read<xt_addrtype_info_v1>(bytes);
  if (!info || (info->dest != 0 && info->dest != XT_ADDRTYPE_LOCAL)) {
    return rule.not_understood("a type of address");
  }
  if (info->source != 0) {
    rule.clients = RuleClients::inside;
  }
}

/// Matches that choose one rule of several at random, or only count.
bool is_neutral(std::string_view match) { return match == "statistic" || match == "nfacct"; }

/// Revision 0, only for IPv4: a count, and then one range.
std::optional<ServedEndpoint> old_range(Bytes info) {
  const auto range = read<nf_nat_ipv4_multi_range_compat>(info);
  if (!range || range->rangesize == 0) {
    return std::nullopt;
  }
  const auto address = address_of(&range->range[0].min_ip, sizeof(range->range[0].min_ip));
  if (!address) {
    return std::nullopt;
  }
  return ServedEndpoint{*address, be16toh(range->range[0].min.all)};
}

std::optional<ServedEndpoint> range(Bytes info, int family) {
  const auto range = read<nf_nat_range>(info);
  if (!range) {
    return std::nullopt;
  }
  const auto address = address_of(&range->min_addr, family == AF_INET ? 4 : 16);
  if (!address) {
    return std::nullopt;
  }
  return ServedEndpoint{*address, be16toh(range->min_proto.all)};
}

}  // namespace

void take_match(IptablesRule& rule, const XtExtension& match) {
  if (match.name == "comment") {
    rule.comment = netlink::text_of(match.info);
  } else if (match.name == "tcp") {
    take_tcp(rule, read<xt_tcp>(match.info));
  } else if (match.name == "udp") {
    take_port(rule, read<xt_udp>(match.info));
  } else if (match.name == "sctp") {
    take_sctp(rule, read<SctpInfo>(match.info));
  } else if (match.name == "multiport") {
    take_multiport(rule, match);
  } else if (match.name == "recent") {
    take_recent(rule, read<xt_recent_mtinfo>(match.info));
  } else if (match.name == "addrtype") {
    take_address_type(rule, match.info);
  } else if (match.name == "physdev") {
    rule.clients = RuleClients::inside;
  } else if (!is_neutral(match.name)) {
    rule.not_understood("match " + match.name);
  }
}

std::string verdict_name(int code) {
  switch (code) {
    case NF_DROP:
      return "DROP";
    case NF_ACCEPT:
      return "ACCEPT";
    case NFT_RETURN:
      return "RETURN";
    default:
      return code == NFT_CONTINUE ? "" : "verdict " + std::to_string(code);
  }
}

void take_target(IptablesRule& rule, const XtExtension& target, int family) {
  rule.target = target.name;
  if (target.name == "DNAT") {
    rule.endpoint = target.revision == 0 ? old_range(target.info) : range(target.info, family);
  }
}

}  // namespace lb::agent
