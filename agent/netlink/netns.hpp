// SPDX-License-Identifier: Apache-2.0
// The machine's network namespaces that this process can see and may enter.
#pragma once

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/netlink/node_network.hpp"

namespace lb::agent {

/// The file of the calling thread's own network namespace.
inline constexpr const char* own_netns = "/proc/thread-self/ns/net";

/// A network namespace, and a file by which it is entered.
struct Netns {
  std::uint64_t inode = 0;  ///< identifies the namespace
  std::string file;
};

/// The calling thread's namespace, by own_netns; inode 0: there is no such file (no /proc).
[[nodiscard]] Netns network_namespace();

/// Each namespace once, our own first: the named ones in /run/netns, where container runtimes keep pods'
/// namespaces, and those of the processes visible to us.
[[nodiscard]] std::vector<Netns> network_namespaces();

/// Calls `act` in a network namespace and returns its result, or the reason why it was not called (EPERM:
/// entering other namespaces needs CAP_SYS_ADMIN; ENOENT: the file is gone, or no namespace's any more). The
/// calling thread is back in its own namespace afterwards.
[[nodiscard]] boost::system::error_code in_netns(const std::string& netns,
                                                 const std::function<boost::system::error_code()>& act);

/// Which other network namespaces this process can reach.
struct Reach {
  bool may_enter = true;
  std::size_t unseen = 0;  ///< namespaces of our devices' peers whose file is not visible
  bool operator==(const Reach&) const = default;
};

/// Peers of `uplink` devices are not counted as pods: an uplink's peer may be in the namespace of the host.
[[nodiscard]] Reach reach_of(const std::map<std::uint32_t, NetDevice>& devices,
                             const std::vector<std::string>& uplink);

}  // namespace lb::agent
