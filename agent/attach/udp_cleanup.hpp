// SPDX-License-Identifier: Apache-2.0
// The methods by which connected UDP sockets leave a backend that is removed, on this kernel.
#pragma once

namespace lb::agent {

/// Descriptors that the caller owns; -1: none.
struct UdpCleanup {
  int finds = -1;     ///< the iterator over sockets' storage that lists those of backends that are gone
  int sockets = -1;   ///< the map of that storage
  int lists = -1;     ///< without `finds`: the iterator over a namespace's UDP sockets that lists them
  int destroys = -1;  ///< the iterator over a namespace's UDP sockets that ends them
  bool ends_by_diag = false;  ///< whether sock_diag can end a socket
  bool reconnects = false;    ///< whether we can connect a process's socket in its place
};

}  // namespace lb::agent
