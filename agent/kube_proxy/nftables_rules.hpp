// Reads kube-proxy's nftables mode: its table `kube-proxy`. Pure.
#pragma once

#include <string>
#include <string_view>

#include "agent/kube_proxy/proxy_rules.hpp"
#include "agent/netlink/nf_dump.hpp"

namespace lb::agent {

inline constexpr std::string_view nftables_table = "kube-proxy";

/// `dump` is of that table, of AF_INET or AF_INET6.
[[nodiscard]] ProxyRules nftables_rules(const NfDump& dump, int family);

/// "namespace/name[:port]" of "service-HASH-namespace/name/protocol/port"; empty where the chain's name was
/// too long for all of that.
[[nodiscard]] std::string service_of_chain(std::string_view chain);

}  // namespace lb::agent
