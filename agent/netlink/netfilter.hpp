// SPDX-License-Identifier: Apache-2.0
// Opens nfnetlink sockets and builds requests to netfilter (nf_tables, ctnetlink).
#pragma once

#include <linux/netfilter/nfnetlink.h>

#include "agent/netlink/netlink.hpp"
#include "maps/map.hpp"

namespace lb::agent {

/// Opens a nfnetlink socket. Invalid if the kernel has no nfnetlink; errno has the reason.
[[nodiscard]] maps::Fd open_netfilter();

/// `subsystem` is NFNL_SUBSYS_…, `message` one of that subsystem's messages. `family`: AF_INET or AF_INET6,
/// which netfilter numbers alike.
[[nodiscard]] netlink::Request netfilter_request(int subsystem, int message, netlink::Wanted wanted,
                                                 int family);

}  // namespace lb::agent
