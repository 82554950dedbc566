// SPDX-License-Identifier: Apache-2.0
// Reads kube-proxy's nftables mode: its table `kube-proxy`. Pure.
#pragma once

#include <string>
#include <string_view>

#include "agent/kube_proxy/proxy_rules.hpp"
#include "agent/netlink/nf_dump.hpp"

namespace lb::agent {

inline constexpr std::string_view nftables_table = "kube-proxy";

/// `dump` is a dump of that table; `family`: AF_INET or AF_INET6.
[[nodiscard]] ProxyRules nftables_rules(const NfDump& dump, int family);

/// "namespace/name[:port]" from "service-HASH-namespace/name/protocol/port"; empty if the chain's name was
/// truncated.
[[nodiscard]] std::string service_of_chain(std::string_view chain);

}  // namespace lb::agent
