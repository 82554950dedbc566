// SPDX-License-Identifier: Apache-2.0
#include "agent/netlink/netfilter.hpp"

#include <linux/netfilter.h>
#include <sys/socket.h>

namespace lb::agent {

static_assert(int{NFPROTO_IPV4} == AF_INET && int{NFPROTO_IPV6} == AF_INET6);

maps::Fd open_netfilter() {
  return maps::Fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
}

netlink::Request netfilter_request(int subsystem, int message, netlink::Wanted wanted, int family) {
  nfgenmsg head{};
  head.nfgen_family = static_cast<__u8>(family);
  return {static_cast<std::uint16_t>(subsystem << 8 | message), wanted, head};
}

}  // namespace lb::agent
