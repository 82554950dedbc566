// SPDX-License-Identifier: Apache-2.0
// nf_tables tables that keep conntrack working, by rules that change no packet.
//
// NAT: the kernel translates packets of connections that conntrack has translated only while some chain of
// type nat exists. When the last nat chain is removed, which may be kube-proxy's, connections that use it
// hang; and a new connection whose tuple clashes with one of them is dropped instead of getting another port.
//
// Tracking: the kernel tracks connections only while some rule of the network namespace uses conntrack,
// whether or not packets reach that rule. BPF programs can look up tracked connections only.
#pragma once

#include <boost/system/error_code.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lb::agent {

/// Name of the table of the Sluice with these pins, after the last part of their path: Sluices in one network
/// namespace must differ in it. The rest of the path does not count, because a container may see it at
/// another place.
[[nodiscard]] std::string kept_nat_table(const std::filesystem::path& pins);
[[nodiscard]] std::string kept_tracking_table(const std::filesystem::path& pins);

/// Creates the table unless it exists. `family`: AF_INET or AF_INET6.
[[nodiscard]] boost::system::error_code keep_nat(int family, std::string_view table);
/// Like keep_nat(). No packet reaches the table's chain.
[[nodiscard]] boost::system::error_code keep_tracking(int family, std::string_view table);
/// Calls keep_nat() or keep_tracking() for both families. A kernel without IPv6 needs no IPv6 table and
/// cannot have one, so only IPv4's error is returned.
[[nodiscard]] boost::system::error_code keep_in_both_families(
    boost::system::error_code (*keep)(int, std::string_view), std::string_view table);
/// The families in which the table exists, as nft names them: "ip", "ip6".
[[nodiscard]] std::vector<std::string> families_with(std::string_view table);
/// Removes the table from both families; no-op where it does not exist.
void remove_kept(std::string_view table);

}  // namespace lb::agent
