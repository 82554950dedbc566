// SPDX-License-Identifier: Apache-2.0
// Creates sockets in another cgroup, and writes marks into their storage, which the programs clear.
#include "agent/attach/socket_probe.hpp"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <utility>

#include "maps/abi/abi.h"

namespace lb::agent {
namespace {

// A destination that no Service can have: loopback is no service's address, and port 0 no service's port. A
// service's pair would look like the mark.
constexpr std::uint16_t no_port = 0;

maps::Fd udp_socket(int family) { return maps::Fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

sockaddr_storage unused_address(int family) {
  const sockaddr_in in{.sin_family = AF_INET,
                       .sin_port = htons(no_port),
                       .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
                       .sin_zero = {}};
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(no_port);
  in6.sin6_addr = in6addr_loopback;
  sockaddr_storage where{};
  if (family == AF_INET) {
    std::memcpy(&where, &in, sizeof(in));
  } else {
    std::memcpy(&where, &in6, sizeof(in6));
  }
  return where;
}

// Without a route connect() fails, but only after the programs ran. Connecting to AF_UNSPEC releases the
// port.
void connect_once(int socket, int family) {
  const auto where = unused_address(family);
  ::connect(socket, reinterpret_cast<const sockaddr*>(&where), sizeof(where));
  const sockaddr none{.sa_family = AF_UNSPEC, .sa_data = {}};
  ::connect(socket, &none, sizeof(none));
}

// Forks a child into that cgroup, which shares our descriptors but not our memory; it may only make system
// calls.
pid_t fork_into(const Cgroup& cgroup) {
  clone_args how{};
  how.flags = CLONE_INTO_CGROUP | CLONE_FILES;
  how.exit_signal = SIGCHLD;
  how.cgroup = static_cast<std::uint64_t>(cgroup.directory.get());
  return static_cast<pid_t>(::syscall(SYS_clone3, &how, sizeof(how)));
}

// A socket belongs to the cgroup of the process that created it, even if another process uses it afterwards.
bool replace(int socket, int family) {
  const int made = ::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool replaced = made >= 0 && ::dup3(made, socket, O_CLOEXEC) >= 0;
  ::close(made);
  return replaced;
}

}  // namespace

void SocketProbe::enter(const Cgroup& cgroup) {
  if (std::exchange(entered_, cgroup.id) == cgroup.id) {
    return;
  }
  probes_.clear();
  for (const auto& [hook, family] : {std::pair{"connect4", AF_INET}, std::pair{"connect6", AF_INET6}}) {
    if (auto socket = udp_socket(family); socket) {
      probes_.push_back({hook, family, std::move(socket)});
    }
  }
  const auto child = fork_into(cgroup);
  if (child == 0) {
    bool all = true;
    for (const auto& probe : probes_) {
      all = replace(probe.socket.get(), probe.family) && all;
    }
    ::_exit(all ? 0 : 1);
  }
  int status = 1;
  const bool inside = child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
  if (!inside && cgroup.id != host_root_cgroup) {
    probes_.clear();
  }
}

// At connect(), the programs clear all pairs of the socket before they check the destination.
bool SocketProbe::is_running(const Probe& probe) const {
  const int socket = probe.socket.get();
  lb_socket mark{};
  mark.pairs[0].used = LB_YES;
  if (bpf_map_update_elem(sockets_, &socket, &mark, BPF_ANY) != 0) {
    return true;  // unknown
  }
  connect_once(socket, probe.family);
  return bpf_map_lookup_elem(sockets_, &socket, &mark) != 0 || mark.pairs[0].used == LB_NO;
}

std::vector<std::string> SocketProbe::not_running() const {
  std::vector<std::string> found;
  for (const auto& probe : probes_) {
    if (!is_running(probe)) {
      found.emplace_back(probe.hook);
    }
  }
  return found;
}

}  // namespace lb::agent
