// Requests to netfilter (nf_tables, ctnetlink) by netlink: their socket, and how each message begins.
#pragma once

#include <linux/netfilter/nfnetlink.h>

#include "agent/netlink/netlink.hpp"
#include "maps/map.hpp"

namespace lb::agent {

/// Invalid where the kernel has no nfnetlink; errno says why.
[[nodiscard]] maps::Fd open_netfilter();

/// `subsystem` is NFNL_SUBSYS_…, `message` that subsystem's. `family`: AF_INET or AF_INET6, which netfilter
/// numbers alike.
[[nodiscard]] netlink::Request netfilter_request(int subsystem, int message, netlink::Wanted wanted,
                                                 int family);

}  // namespace lb::agent
