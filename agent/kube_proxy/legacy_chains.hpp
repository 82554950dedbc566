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

/// Of one family (AF_INET, AF_INET6), by its name: "nat". Empty where it is not loaded. The rules' numbers
/// are those of their entries.
[[nodiscard]] ChainTable read_legacy_table(int family, const std::string& table);

/// Its entries as IPT_SO_GET_ENTRIES gives them; none where it is not loaded, or another process changes it
/// at this moment.
[[nodiscard]] std::vector<std::byte> read_legacy_entries(int family, const std::string& table);

/// All of it, or nothing and the kernel's error; EAGAIN: another process changed the table meanwhile.
/// Counters of what stays are kept.
[[nodiscard]] boost::system::error_code remove_legacy_chains(int family, const std::string& table,
                                                             const ChainRemoval& removal);

}  // namespace lb::agent
