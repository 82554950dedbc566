// SPDX-License-Identifier: Apache-2.0
// kube-proxy's iptables mode: rules of the tables nat and filter, of either iptables backend. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kube_proxy/packet_conditions.hpp"
#include "agent/kube_proxy/proxy_rules.hpp"
#include "agent/netlink/netlink.hpp"
#include "agent/netlink/nf_dump.hpp"

namespace lb::agent {

/// One rule, with the fields in which kube-proxy's rules differ.
struct IptablesRule : PacketConditions {
  std::string chain;
  std::string comment;
  std::uint32_t recent_seconds = 0;        ///< matches clients seen within this time
  std::string target;                      ///< a chain, or "DNAT", "REJECT", "DROP", …
  std::optional<ServedEndpoint> endpoint;  ///< of DNAT
};

/// An xtables extension's structure, as both backends have it.
struct XtExtension {
  std::string name;
  std::uint32_t revision = 0;
  netlink::Bytes info;
};

/// An extension that is not known makes the rule one that is not understood.
void take_match(IptablesRule& rule, const XtExtension& match);
/// `family` is AF_INET or AF_INET6.
void take_target(IptablesRule& rule, const XtExtension& target, int family);

/// "DROP", "ACCEPT", "RETURN"; empty: the next rule follows.
[[nodiscard]] std::string verdict_name(int code);

/// The rules of iptables-nft for AF_INET or AF_INET6.
[[nodiscard]] std::vector<IptablesRule> nft_iptables_rules(const NfDump& dump, int family);

/// The rules of iptables-legacy: a table's entries from IPT_SO_GET_ENTRIES. Ends with a malformed entry, as a
/// rule that is not understood.
[[nodiscard]] std::vector<IptablesRule> legacy_iptables_rules(netlink::Bytes entries, int family);

/// Evaluates only rules that it understands; of the others those are named that may select a backend or
/// refuse.
[[nodiscard]] ProxyRules iptables_rules(std::span<const IptablesRule> nat,
                                        std::span<const IptablesRule> filter, int family);

}  // namespace lb::agent
