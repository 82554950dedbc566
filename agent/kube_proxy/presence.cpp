// SPDX-License-Identifier: Apache-2.0
// Queries nf_tables by netlink, and the legacy tables by their socket options. Does not make the kernel load
// a table.
#include "agent/kube_proxy/presence.hpp"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "agent/netlink/netlink.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

constexpr std::string_view own_table = "kube-proxy";        // the table of its nftables mode
constexpr std::string_view common_chain = "KUBE-SERVICES";  // a chain of its other modes, in the table nat
constexpr std::array families = {AF_INET, AF_INET6};

struct Words {
  std::uint16_t type;
  std::string_view text;
};

/// Whether an object with these names exists.
bool finds(int socket, int message, int family, std::initializer_list<Words> names) {
  nfgenmsg head{};
  head.nfgen_family = static_cast<__u8>(family == AF_INET ? NFPROTO_IPV4 : NFPROTO_IPV6);
  const auto type = static_cast<std::uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | message);
  netlink::Request request(type, netlink::Wanted::one, head);
  for (const auto& name : names) {
    request.add(name.type, name.text);
  }
  return !netlink::ask(socket, request, [](const auto&, netlink::Bytes) {});
}

bool has_table(int socket, int family) {
  return finds(socket, NFT_MSG_GETTABLE, family, {{NFTA_TABLE_NAME, own_table}});
}

bool has_chain(int socket, int family) {
  return finds(socket, NFT_MSG_GETCHAIN, family,
               {{NFTA_CHAIN_TABLE, "nat"}, {NFTA_CHAIN_NAME, common_chain}});
}

/// Whether the table is loaded; querying the table itself would load it.
bool has_legacy_nat(int family) {
  std::ifstream names(family == AF_INET ? "/proc/thread-self/net/ip_tables_names"
                                        : "/proc/thread-self/net/ip6_tables_names");
  std::string name;
  while (names >> name) {
    if (name == "nat") {
      return true;
    }
  }
  return false;
}

/// Size of all rules in bytes; 0: unknown.
std::size_t legacy_size(int socket, int family) {
  ipt_getinfo info{};
  std::strcpy(info.name, "nat");
  socklen_t size = sizeof(info);
  static_assert(sizeof(info) == sizeof(ip6t_getinfo) && IPT_SO_GET_INFO == IP6T_SO_GET_INFO);
  const int level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
  return ::getsockopt(socket, level, IPT_SO_GET_INFO, &info, &size) == 0 ? info.size : 0;
}

/// Whether kube-proxy's chain exists: a chain's name precedes its rules.
bool names_chain(int socket, int family, std::size_t bytes) {
  static_assert(sizeof(ipt_get_entries) == sizeof(ip6t_get_entries));
  std::vector<char> answer(sizeof(ipt_get_entries) + bytes);
  std::strcpy(answer.data() + offsetof(ipt_get_entries, name), "nat");
  const auto room = static_cast<unsigned>(bytes);
  std::memcpy(answer.data() + offsetof(ipt_get_entries, size), &room, sizeof(room));
  auto size = static_cast<socklen_t>(answer.size());
  const int level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
  if (::getsockopt(socket, level, IPT_SO_GET_ENTRIES, answer.data(), &size) != 0) {
    return false;
  }
  const std::string whole = std::string(common_chain) + '\0';
  return std::ranges::search(answer, whole).begin() != answer.end();
}

}  // namespace

KubeProxy KubeProxyRules::detect_legacy(Legacy& seen, int family) {
  if (!has_legacy_nat(family)) {
    seen = {};
    return seen.found;
  }
  const maps::Fd socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto bytes = legacy_size(socket.get(), family);
  if (bytes != seen.bytes) {
    const bool found = bytes > 0 && names_chain(socket.get(), family, bytes);
    seen = {bytes, found ? KubeProxy::present : KubeProxy::absent};
  }
  return seen.found;
}

std::string KubeProxyRules::detect() {
  const maps::Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
  const auto any = [&](auto has) {
    return std::ranges::any_of(families, [&](int family) { return has(socket.get(), family); });
  };
  if (any(has_table)) {
    return "nftables";
  }
  if (any(has_chain)) {
    return "iptables";
  }
  bool legacy = false;
  for (std::size_t at = 0; at < families.size(); ++at) {
    legacy |= detect_legacy(legacy_.at(at), families.at(at)) == KubeProxy::present;
  }
  return legacy ? "iptables-legacy" : "";
}

}  // namespace lb::agent
