// Closes connected UDP sockets by sock_diag, on kernels where no BPF program can (before 6.5).
#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <set>

#include "maps/map.hpp"

namespace lb::agent {

/// Whether this kernel can destroy UDP sockets by sock_diag (CONFIG_INET_DIAG_DESTROY).
[[nodiscard]] bool ends_udp_sockets();

/// A sock_diag socket works on the network namespace in which it was opened. Errors are errno values.
[[nodiscard]] boost::system::result<maps::Fd> open_socket_diag();

/// Destroys the connected UDP sockets of `diag`'s namespace that have one of these cookies; returns their
/// number. Errors are errno values.
[[nodiscard]] boost::system::result<std::uint64_t> end_udp_sockets(int diag,
                                                                   const std::set<std::uint64_t>& cookies);

}  // namespace lb::agent
