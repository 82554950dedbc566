// Closes connected UDP sockets from outside, by sock_diag, on kernels where no program can (before 6.5).
#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <set>

#include "maps/map.hpp"

namespace lb::agent {

/// Can this kernel end UDP sockets so (CONFIG_INET_DIAG_DESTROY)?
[[nodiscard]] bool ends_udp_sockets();

/// A socket of this kind belongs to the network namespace in which it was opened. Errors are errno values.
[[nodiscard]] boost::system::result<maps::Fd> open_socket_diag();

/// Ends those connected UDP sockets of `diag`'s namespace that have one of these cookies; how many. Errors
/// are errno values.
[[nodiscard]] boost::system::result<std::uint64_t> end_udp_sockets(int diag,
                                                                   const std::set<std::uint64_t>& cookies);

}  // namespace lb::agent
