// The methods to close connected UDP sockets on this kernel when their backend is removed.
#pragma once

namespace lb::agent {

/// Iterators over UDP sockets, as descriptors that the caller owns; -1: none.
struct UdpCleanup {
  int destroys = -1;  ///< the iterator that destroys sockets
  int finds = -1;     ///< else the iterator that lists sockets for sock_diag to destroy
};

}  // namespace lb::agent
