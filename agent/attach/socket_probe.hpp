// SPDX-License-Identifier: Apache-2.0
// Verifies that the socket programs run, by calls on test sockets in the served cgroup (REL-70). Attachment
// proves nothing: the cgroup may be removed, or not the one that contains the processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/base/cgroup.hpp"
#include "maps/map.hpp"

namespace lb::agent {

class SocketProbe {
 public:
  /// `sockets` is the descriptor of lb_sockets.
  explicit SocketProbe(int sockets) : sockets_(sockets) {}

  /// Creates sockets in that cgroup, once; they keep it in memory, but it can still be removed. If the kernel
  /// does not permit a process of ours there (no write permission, a namespace's border, controllers), the
  /// sockets are in our own cgroup; if the served cgroup is then not the root, there are no sockets, and the
  /// result is unknown.
  void enter(const Cgroup& cgroup);

  /// Hooks that did not run when a test socket connected: "connect4", "connect6". Sends no packet. Costs a
  /// few system calls.
  [[nodiscard]] std::vector<std::string> not_running() const;

 private:
  struct Probe {
    const char* hook;
    int family;
    maps::Fd socket;
  };
  [[nodiscard]] bool is_running(const Probe& probe) const;

  int sockets_;
  std::uint64_t entered_ = 0;  ///< the cgroup's inode number
  std::vector<Probe> probes_;
};

}  // namespace lb::agent
