// iptables' tables in nf_tables (iptables-nft): reads them, and removes chains of them in one transaction. By
// netlink, so that no binary of the host is needed.
#pragma once

#include <boost/system/error_code.hpp>
#include <string>
#include <string_view>

#include "agent/kube_proxy/chains.hpp"

namespace lb::agent {

/// Of one family (AF_INET, AF_INET6), by its name: "nat". Empty where there is none.
[[nodiscard]] ChainTable read_nf_table(int family, std::string_view table);

/// All of it, or nothing and the kernel's error.
[[nodiscard]] boost::system::error_code remove_nf_chains(int family, std::string_view table,
                                                         const ChainRemoval& removal);

}  // namespace lb::agent
