// Tables of nf_tables that keep conntrack at work, by rules that change nothing.
//
// Translating: the kernel rewrites packets of the connections that it has translated once as long as some
// chain of type nat exists. So when the last nat chain goes, as kube-proxy's may be, connections that it
// began hang; and a new connection on a tuple of one of them is dropped, where it would have got another
// port.
//
// Tracking: the kernel tracks at all as long as some rule of the network namespace asks for it, whether or
// not packets come to that rule. Programs can only be told of connections that are tracked.
#pragma once

#include <boost/system/error_code.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lb::agent {

/// Of the Sluice whose pins are there; two on one node have a table each.
[[nodiscard]] std::string kept_nat_table(const std::filesystem::path& pins);
[[nodiscard]] std::string kept_tracking_table(const std::filesystem::path& pins);

/// Makes it, unless it is there. `family`: AF_INET or AF_INET6.
[[nodiscard]] boost::system::error_code keep_nat(int family, std::string_view table);
/// Likewise. No packet comes to its chain.
[[nodiscard]] boost::system::error_code keep_tracking(int family, std::string_view table);
/// Likewise in both families, by one of these two. A kernel without IPv6 needs no table of that family, and
/// can have none: IPv4's error is the result.
[[nodiscard]] boost::system::error_code keep_in_both_families(
    boost::system::error_code (*keep)(int, std::string_view), std::string_view table);
/// The families that have it, as nft names them: "ip", "ip6".
[[nodiscard]] std::vector<std::string> families_with(std::string_view table);
/// Removes it from both families; where it is not, nothing happens.
void remove_kept(std::string_view table);

}  // namespace lb::agent
