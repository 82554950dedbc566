// SPDX-License-Identifier: Apache-2.0
// The socket hooks, and the program for each.
#pragma once

#include <linux/bpf.h>

#include <array>

namespace lb::agent {

struct SocketHook {
  const char* program;
  const char* name;
  bpf_attach_type type;
};

// Programs that restore addresses are attached before those that translate them.
inline constexpr std::array socket_hooks = {
    SocketHook{"lb_peername4", "getpeername4", BPF_CGROUP_INET4_GETPEERNAME},
    SocketHook{"lb_peername6", "getpeername6", BPF_CGROUP_INET6_GETPEERNAME},
    SocketHook{"lb_recvmsg4", "recvmsg4", BPF_CGROUP_UDP4_RECVMSG},
    SocketHook{"lb_recvmsg6", "recvmsg6", BPF_CGROUP_UDP6_RECVMSG},
    SocketHook{"lb_sendmsg4", "sendmsg4", BPF_CGROUP_UDP4_SENDMSG},
    SocketHook{"lb_sendmsg6", "sendmsg6", BPF_CGROUP_UDP6_SENDMSG},
    SocketHook{"lb_connect4", "connect4", BPF_CGROUP_INET4_CONNECT},
    SocketHook{"lb_connect6", "connect6", BPF_CGROUP_INET6_CONNECT},
};

}  // namespace lb::agent
