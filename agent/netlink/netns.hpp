// The machine's network namespaces, as far as this process sees them and may enter them.
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

/// The file of the calling thread's own one.
inline constexpr const char* own_netns = "/proc/thread-self/ns/net";

/// Files of network namespaces, each namespace once, our own first: those with a name in /run/netns, where
/// container runtimes keep pods', and those of the processes that we see.
[[nodiscard]] std::vector<std::string> network_namespaces();

/// Calls `act` in a network namespace; what it returns, or why it was not called (EPERM: others than our own
/// need CAP_SYS_ADMIN). The calling thread is back in its own one afterwards.
[[nodiscard]] boost::system::error_code in_netns(const std::string& netns,
                                                 const std::function<boost::system::error_code()>& act);

/// How far we reach beyond our own namespace.
struct Reach {
  bool may_enter = true;
  std::size_t unseen = 0;  ///< namespaces that our devices lead to, and of which we see no file
  bool operator==(const Reach&) const = default;
};

/// `uplink` devices lead to no pods, but perhaps to the namespace that holds this machine.
[[nodiscard]] Reach reach_of(const std::map<std::uint32_t, NetDevice>& devices,
                             const std::vector<std::string>& uplink);

}  // namespace lb::agent
