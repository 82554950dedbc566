// Matches and targets of xtables, by the kernel's structures.
#include <endian.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/xt_addrtype.h>
#include <linux/netfilter/xt_recent.h>
#include <linux/netfilter/xt_tcpudp.h>
#include <sys/socket.h>

#include <cstddef>

#include "agent/kube_proxy/iptables_rules.hpp"

namespace lb::agent {
namespace {

using netlink::Bytes;
using netlink::read;

/// The beginning of xt_sctp_info, whose header is not valid C++.
struct SctpInfo {
  std::uint16_t dpts[2];  ///< first and last
  static constexpr int invflags = 0;
};

/// Takes the port if the range has only one.
template <class Info>
void take_port(IptablesRule& rule, const std::optional<Info>& info) {
  if (info && info->dpts[0] == info->dpts[1] && info->invflags == 0) rule.port = info->dpts[0];
}

void take_recent(IptablesRule& rule, const std::optional<xt_recent_mtinfo>& info) {
  if (info && (info->check_set & XT_RECENT_CHECK) != 0) rule.recent_seconds = info->seconds;
}

void take_address_type(IptablesRule& rule, const std::optional<xt_addrtype_info_v1>& info) {
  if (info && info->source != 0) rule.clients = RuleClients::inside;
}

/// Revision 0, only for IPv4: a count, and then one range.
std::optional<ServedEndpoint> old_range(Bytes info) {
  const auto range = read<nf_nat_ipv4_multi_range_compat>(info);
  if (!range || range->rangesize == 0) return std::nullopt;
  const auto address = address_of(&range->range[0].min_ip, sizeof(range->range[0].min_ip));
  if (!address) return std::nullopt;
  return ServedEndpoint{*address, be16toh(range->range[0].min.all)};
}

std::optional<ServedEndpoint> range(Bytes info, int family) {
  const auto range = read<nf_nat_range>(info);
  if (!range) return std::nullopt;
  const auto address = address_of(&range->min_addr, family == AF_INET ? 4 : 16);
  if (!address) return std::nullopt;
  return ServedEndpoint{*address, be16toh(range->min_proto.all)};
}

}  // namespace

void take_match(IptablesRule& rule, const XtExtension& match) {
  if (match.name == "comment") {
    rule.comment = netlink::text_of(match.info);
  } else if (match.name == "tcp") {
    take_port(rule, read<xt_tcp>(match.info));
  } else if (match.name == "udp") {
    take_port(rule, read<xt_udp>(match.info));
  } else if (match.name == "sctp") {
    take_port(rule, read<SctpInfo>(match.info));
  } else if (match.name == "recent") {
    take_recent(rule, read<xt_recent_mtinfo>(match.info));
  } else if (match.name == "addrtype") {
    take_address_type(rule, read<xt_addrtype_info_v1>(match.info));
  } else if (match.name == "physdev") {
    rule.clients = RuleClients::inside;
  }
}

void take_target(IptablesRule& rule, const XtExtension& target, int family) {
  rule.target = target.name;
  if (target.name == "DNAT") {
    rule.endpoint = target.revision == 0 ? old_range(target.info) : range(target.info, family);
  }
}

}  // namespace lb::agent
