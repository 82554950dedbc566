// SPDX-License-Identifier: Apache-2.0
// Finds and ends connected UDP sockets by sock_diag.
#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>
#include <cstdint>

#include "maps/abi/lost_socket.h"
#include "maps/map.hpp"

namespace lb::agent {

/// Whether this kernel can destroy UDP sockets by sock_diag (CONFIG_INET_DIAG_DESTROY).
[[nodiscard]] bool ends_udp_sockets();

/// A sock_diag socket works on the network namespace in which it was opened. Errors are errno values.
[[nodiscard]] boost::system::result<maps::Fd> open_socket_diag();

/// The inode of that socket's file, as /proc/PID/fd shows it; errors as of end_udp_socket().
[[nodiscard]] boost::system::result<std::uint64_t> udp_socket_inode(int diag, const lb_lost_socket& socket);

/// Ends that socket of `diag`'s namespace. ENOENT: it is gone, connected elsewhere by now, or another socket
/// has the same addresses and ports and is found before it.
[[nodiscard]] boost::system::error_code end_udp_socket(int diag, const lb_lost_socket& socket);

}  // namespace lb::agent
