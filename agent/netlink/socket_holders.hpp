// SPDX-License-Identifier: Apache-2.0
// The processes that have given sockets open, and those sockets connected again in their processes' place
// (SEM-46).
#pragma once

#include <cstdint>
#include <set>
#include <stop_token>
#include <unordered_map>
#include <unordered_set>

#include "maps/abi/lost_socket.h"

namespace lb::agent {

/// Whether this process can connect sockets that others have open: Linux 5.6, CAP_SYS_PTRACE and
/// CAP_DAC_READ_SEARCH, sight of other containers' processes, and no filter of system calls that refuses it.
[[nodiscard]] bool reconnects_sockets();

/// Sockets by the inode of their file, as sock_diag shows it (idiag_inode).
using SocketsByInode = std::unordered_map<std::uint64_t, lb_lost_socket>;

/// Connects each socket once more to the service's address, by a copy of its process's descriptor
/// (pidfd_getfd): the socket's own hook chooses a backend. Reads the descriptors of processes in the network
/// namespaces `near` (inodes) first, and those of other visible processes only if sockets are missing then.
/// Returns the cookies of those that are connected.
[[nodiscard]] std::unordered_set<std::uint64_t> reconnect(SocketsByInode sockets,
                                                          const std::set<std::uint64_t>& near,
                                                          const std::stop_token& stop);

}  // namespace lb::agent
