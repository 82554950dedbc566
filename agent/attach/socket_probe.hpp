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

  /// Creates sockets in that cgroup, once; they keep it in memory, but it can still be removed. Where the
  /// kernel refuses a process of ours there (no write permission, a namespace's border, controllers), the
  /// sockets are in our own cgroup, or there are none if the served one is not the root: then nothing is
  /// known.
  void enter(const Cgroup& cgroup);

  /// Hooks that did not run when such a socket connected: "connect4", "connect6". Sends no packet. Costs a
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
