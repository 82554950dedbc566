// SPDX-License-Identifier: Apache-2.0
// iptables' tables in the kernel's ip_tables and ip6_tables (iptables-legacy): reads them, and removes parts
// of them by one replacement of the table, as iptables-legacy-restore does. Reading loads no table.
#pragma once

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/kube_proxy/chains.hpp"

namespace lb::agent {

/// Reads a table ("nat") of one family (AF_INET, AF_INET6). Empty if it is not loaded. Rule numbers are those
/// of their entries.
[[nodiscard]] ChainTable read_legacy_table(int family, const std::string& table);

/// The table's entries from IPT_SO_GET_ENTRIES; empty if it is not loaded, or another process changes it at
/// this moment.
[[nodiscard]] std::vector<std::byte> read_legacy_entries(int family, const std::string& table);

/// Removes everything, or nothing and returns the kernel's error; EAGAIN: another process changed the table
/// meanwhile. Counters of remaining rules are kept.
[[nodiscard]] boost::system::error_code remove_legacy_chains(int family, const std::string& table,
                                                             const ChainRemoval& removal);

}  // namespace lb::agent
