// The ways to close connected UDP sockets on this kernel when their backend goes away.
#pragma once

namespace lb::agent {

/// Iterators over UDP sockets, as descriptors that the caller owns; -1: none.
struct UdpCleanup {
  int destroys = -1;  ///< the one that ends them
  int finds = -1;     ///< else the one that names those that sock_diag shall end
};

}  // namespace lb::agent
