// Verifies that the socket programs run, by calls on test sockets in the served cgroup (REL-70). That they
// are attached proves nothing: the cgroup may be a removed one, or not the one that the processes are in.
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

  /// Takes sockets of that cgroup, once; they keep it in memory, but removable. Where the kernel lets no
  /// process of ours in (no write permission, a namespace's border, controllers), our own cgroup's, and none
  /// if the served one is not the root of all: then nothing is known.
  void enter(const Cgroup& cgroup);

  /// Hooks that did not run when such a socket connected: "connect4", "connect6". Sends no packet. A few
  /// system calls.
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
