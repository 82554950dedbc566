// SPDX-License-Identifier: Apache-2.0
// Checks nftables' own table first, then IPVS (which needs iptables rules, too), then iptables with either of
// its backends.
#include "agent/kube_proxy/services.hpp"

#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/kube_proxy/iptables_rules.hpp"
#include "agent/kube_proxy/ipvs_services.hpp"
#include "agent/kube_proxy/legacy_chains.hpp"
#include "agent/kube_proxy/nftables_rules.hpp"
#include "agent/kube_proxy/proxy_rules.hpp"
#include "agent/netlink/nf_dump.hpp"

namespace lb::agent {
namespace {

using Result = boost::system::result<KubeProxyServices>;
using Rules = std::vector<IptablesRule>;

constexpr std::array families = {AF_INET, AF_INET6};

void add(KubeProxyServices& to, const ProxyRules& rules) {
  to.frontends.merge(served_by(rules));
  to.unread.insert(to.unread.end(), rules.unread.begin(), rules.unread.end());
}

Result read_nftables() {
  KubeProxyServices found;
  for (const auto family : families) {
    const auto dump = read_nf_dump(family, nftables_table);
    if (!dump) {
      return dump.error();
    }
    if (dump->rules().empty()) {
      continue;
    }
    found.mode = ProxyMode::nftables;
    add(found, nftables_rules(*dump, family));
  }
  return found;
}

bool has_services(const Rules& nat) {
  return std::ranges::any_of(nat, [](const auto& rule) { return rule.target == "KUBE-SERVICES"; });
}

enum class Found : std::uint8_t { nothing, rules };

boost::system::result<Found> add_nft_iptables(KubeProxyServices& to, int family) {
  const auto nat = read_nf_dump(family, "nat");
  if (!nat) {
    return nat.error();
  }
  const auto nat_rules = nft_iptables_rules(*nat, family);
  if (!has_services(nat_rules)) {
    return Found::nothing;
  }
  const auto filter = read_nf_dump(family, "filter");
  if (!filter) {
    return filter.error();
  }
  add(to, iptables_rules(nat_rules, nft_iptables_rules(*filter, family), family));
  return Found::rules;
}

Found add_legacy_iptables(KubeProxyServices& to, int family) {
  const auto nat = legacy_iptables_rules(read_legacy_entries(family, "nat"), family);
  if (!has_services(nat)) {
    return Found::nothing;
  }
  const auto filter = legacy_iptables_rules(read_legacy_entries(family, "filter"), family);
  add(to, iptables_rules(nat, filter, family));
  return Found::rules;
}

Result read_iptables() {
  KubeProxyServices found;
  for (const auto family : families) {
    const auto nft = add_nft_iptables(found, family);
    if (!nft) {
      return nft.error();
    }
    if (*nft == Found::rules) {
      found.mode = ProxyMode::iptables;
    } else if (add_legacy_iptables(found, family) == Found::rules && found.mode == ProxyMode::none) {
      found.mode = ProxyMode::iptables_legacy;
    }
  }
  return found;
}

Result read_ipvs() {
  if (::if_nametoindex(ipvs_device) == 0) {
    return KubeProxyServices{};
  }
  auto frontends = read_ipvs_services();
  if (!frontends) {
    return frontends.error();
  }
  return KubeProxyServices{ProxyMode::ipvs, std::move(*frontends), {}};
}

}  // namespace

const char* proxy_mode_name(ProxyMode mode) {
  constexpr std::array names = {"", "nftables", "iptables", "iptables-legacy", "ipvs"};
  return names.at(static_cast<std::size_t>(mode));
}

Result read_kube_proxy_services() {
  for (const auto read : {read_nftables, read_ipvs}) {
    auto found = read();
    if (!found || found->mode != ProxyMode::none) {
      return found;
    }
  }
  return read_iptables();
}

}  // namespace lb::agent
