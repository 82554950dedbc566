// SPDX-License-Identifier: Apache-2.0
// Plans and performs the removal for each table.
#include "agent/kube_proxy/cleanup.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>

#include <array>
#include <boost/system/error_code.hpp>

#include "agent/kube_proxy/chains.hpp"
#include "agent/kube_proxy/ipvs_cleanup.hpp"
#include "agent/kube_proxy/legacy_chains.hpp"
#include "agent/kube_proxy/nf_chains.hpp"
#include "agent/netlink/nf_tables.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;

constexpr std::array families = {AF_INET, AF_INET6};
constexpr std::array<const char*, 3> tables = {"nat", "filter", "mangle"};
constexpr const char* own_table = "kube-proxy";  // the table of its nftables mode

/// The kernel interface of a node's iptables.
struct Backend {
  const char* name;
  ChainTable (*read)(int family, const std::string& table);
  error_code (*remove)(int family, const std::string& table, const ChainRemoval& removal);
};

constexpr std::array<Backend, 2> backends = {
    {{"nft", [](int family, const std::string& table) { return read_nf_table(family, table); },
      [](int family, const std::string& table, const ChainRemoval& removal) {
        return remove_nf_chains(family, table, removal);
      }},
     {"legacy", read_legacy_table, remove_legacy_chains}}};

const char* family_name(int family) { return family == AF_INET ? "ip" : "ip6"; }

/// "iptables-nft's nat", "ip6tables-legacy's filter".
std::string table_text(const Backend& backend, int family, const char* table) {
  return fmt::format("{}tables-{}'s {}", family_name(family), backend.name, table);
}

template <class Visit>
void for_each_table(Visit visit) {
  for (const auto& backend : backends) {
    for (const auto family : families) {
      for (const auto* table : tables) {
        visit(backend, family, table, plan_removal(backend.read(family, table)));
      }
    }
  }
}

}  // namespace

std::vector<std::string> kube_proxy_leftovers() {
  auto found = IpvsCleanup().leftovers();
  for (const auto family : families) {
    if (has_nf_table(family, own_table)) {
      found.push_back(fmt::format("nftables' table {} {}", family_name(family), own_table));
    }
  }
  for_each_table([&](const auto& backend, int family, const char* table, const ChainRemoval& removal) {
    const auto where = table_text(backend, family, table);
    for (const auto& jump : removal.jumps) {
      found.push_back(fmt::format("rule of {} to {} in {}", jump.from, jump.to, where));
    }
    for (const auto& chain : removal.chains) {
      found.push_back(fmt::format("chain {} in {}", chain, where));
    }
  });
  return found;
}

std::vector<std::string> kube_proxy_kept() {
  std::vector<std::string> kept;
  for_each_table([&](const auto& backend, int family, const char* table, const ChainRemoval& removal) {
    for (const auto& chain : removal.kept) {
      kept.push_back(fmt::format("chain {} in {}", chain, table_text(backend, family, table)));
    }
  });
  return kept;
}

std::vector<std::string> kube_proxy_would_end() { return IpvsCleanup().would_end(); }

KubeProxyRemoved remove_kube_proxy_leftovers() {
  const IpvsCleanup ipvs;
  std::vector<std::string> problems;
  const auto handed = ipvs.remove_services(problems);
  const auto note = [&problems](const std::string& what, const error_code& error) {
    if (error) {
      problems.push_back(fmt::format("{}: {}", what, error.message()));
    }
  };
  for (const auto family : families) {
    if (has_nf_table(family, own_table)) {
      note(fmt::format("nftables' table {} {}", family_name(family), own_table),
           remove_nf_table(family, own_table));
    }
  }
  for_each_table([&](const auto& backend, int family, const char* table, const ChainRemoval& removal) {
    note(table_text(backend, family, table), backend.remove(family, table, removal));
  });
  ipvs.remove_sets(problems);
  return {handed, fmt::format("{}", fmt::join(problems, "; "))};
}

}  // namespace lb::agent
