// kube-proxy's iptables mode: rules of the tables nat and filter, of either iptables backend. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kube_proxy/proxy_rules.hpp"
#include "agent/netlink/netlink.hpp"
#include "agent/netlink/nf_dump.hpp"

namespace lb::agent {

/// One rule, with the fields in which kube-proxy's rules differ.
struct IptablesRule {
  enum class Destination : std::uint8_t { any, address, range };

  std::string chain;
  Destination match = Destination::any;
  k8s::Address destination;  ///< for Destination::address
  lb_protocol protocol = LB_ANY_PROTOCOL;
  std::optional<std::uint16_t> port;  ///< destination port
  RuleClients clients = RuleClients::all;
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

/// Unknown extensions are ignored.
void take_match(IptablesRule& rule, const XtExtension& match);
/// `family` is AF_INET or AF_INET6.
void take_target(IptablesRule& rule, const XtExtension& target, int family);

/// The rules of iptables-nft for AF_INET or AF_INET6.
[[nodiscard]] std::vector<IptablesRule> nft_iptables_rules(const NfDump& dump, int family);

/// The rules of iptables-legacy: a table's entries from IPT_SO_GET_ENTRIES. Stops at the first malformed
/// entry.
[[nodiscard]] std::vector<IptablesRule> legacy_iptables_rules(netlink::Bytes entries, int family);

[[nodiscard]] ProxyRules iptables_rules(std::span<const IptablesRule> nat,
                                        std::span<const IptablesRule> filter, int family);

}  // namespace lb::agent
