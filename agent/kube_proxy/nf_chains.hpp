// SPDX-License-Identifier: Apache-2.0
// iptables' tables in nf_tables (iptables-nft): reads them, and removes chains of them in one transaction.
// Uses netlink, so that no binary of the host is needed.
#pragma once

#include <linux/netlink.h>

#include <boost/system/error_code.hpp>
#include <string>
#include <string_view>

#include "agent/kube_proxy/chains.hpp"
#include "agent/netlink/netlink.hpp"

namespace lb::agent {

/// Takes a reply to NFT_MSG_GETCHAIN or NFT_MSG_GETRULE; messages about other tables are skipped. Pure.
void take_nf_chain_message(ChainTable& into, std::string_view table, const nlmsghdr& head,
                           netlink::Bytes body);

/// Reads a table ("nat") of one family (AF_INET, AF_INET6). Empty if there is none.
[[nodiscard]] ChainTable read_nf_table(int family, std::string_view table);

/// Removes everything, or nothing and returns the kernel's error.
[[nodiscard]] boost::system::error_code remove_nf_chains(int family, std::string_view table,
                                                         const ChainRemoval& removal);

}  // namespace lb::agent
