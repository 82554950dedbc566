// SPDX-License-Identifier: Apache-2.0
// Reads /proc/PID/fd, which only its process's user may list (hence CAP_DAC_READ_SEARCH). A descriptor can
// become another file's in between: the socket's cookie is compared.
#include "agent/netlink/socket_holders.hpp"

#include <linux/capability.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "agent/base/privileges.hpp"
#include "agent/netlink/proc.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

constexpr std::size_t ipv4_at = 12;  // in ::ffff:a.b.c.d

/// The inode in "socket:[123]", as the link of a socket's descriptor reads.
std::optional<std::uint64_t> socket_inode(const std::string& link) {
  constexpr std::string_view prefix = "socket:[";
  std::array<char, 64> target{};
  const auto size = ::readlink(link.c_str(), target.data(), target.size());
  const std::string_view text(target.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  if (!text.starts_with(prefix) || !text.ends_with(']')) {
    return std::nullopt;
  }
  std::uint64_t inode = 0;
  const auto [stopped, error] =
      std::from_chars(text.data() + prefix.size(), text.data() + text.size() - 1, inode);
  return error == std::errc() && *stopped == ']' ? std::optional(inode) : std::nullopt;
}

/// The inode of its network namespace; 0: it is gone, or we may not look.
std::uint64_t netns_of(int process) {
  struct stat status{};
  const auto file = "/proc/" + std::to_string(process) + "/ns/net";
  return ::stat(file.c_str(), &status) == 0 ? status.st_ino : 0;
}

maps::Fd open_process(int process) {
  return maps::Fd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
}

maps::Fd copy_descriptor(const maps::Fd& process, int descriptor) {
  return maps::Fd(static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), descriptor, 0)));
}

template <class T>
std::optional<T> option_of(const maps::Fd& socket, int name) {
  T value{};
  socklen_t size = sizeof(value);
  return ::getsockopt(socket.get(), SOL_SOCKET, name, &value, &size) == 0 ? std::optional(value)
                                                                          : std::nullopt;
}

int connect4(const maps::Fd& socket, const lb_lost_socket& lost) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(lost.asked_port);
  std::memcpy(&to.sin_addr, lost.asked + ipv4_at, sizeof(to.sin_addr));
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to));
}

int connect6(const maps::Fd& socket, const lb_lost_socket& lost) {
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(lost.asked_port);
  std::memcpy(&to.sin6_addr, lost.asked, sizeof(to.sin6_addr));
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to));
}

bool is_at(const sockaddr_storage& peer, const std::uint8_t (&address)[16], std::uint16_t port) {
  if (peer.ss_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(peer);
    return ntohs(ipv4.sin_port) == port &&
           std::memcmp(&ipv4.sin_addr, address + ipv4_at, sizeof(ipv4.sin_addr)) == 0;
  }
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(peer);
  return ntohs(ipv6.sin6_port) == port && std::memcmp(&ipv6.sin6_addr, address, sizeof(ipv6.sin6_addr)) == 0;
}

/// Without `hostPID` the first process of a container's PID namespace is this program, and pods' are not in
/// it.
bool sees_other_containers() {
  struct stat first{};
  struct stat own{};
  return ::stat("/proc/1/exe", &first) != 0 || ::stat("/proc/self/exe", &own) != 0 ||
         first.st_dev != own.st_dev || first.st_ino != own.st_ino;
}

/// Whether its process has not connected it elsewhere, or disconnected it, since it was found. getpeername()
/// shows the service's address, or the backend's where that program is missing.
bool is_still_there(const maps::Fd& socket, const lb_lost_socket& lost) {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  return ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
         (is_at(peer, lost.asked, lost.asked_port) || is_at(peer, lost.peer, lost.peer_port));
}

/// An error that is pending afterwards is the former backend's; reading it clears it.
bool connect_again(const maps::Fd& socket, const lb_lost_socket& lost) {
  if (!socket || option_of<std::uint64_t>(socket, SO_COOKIE) != lost.cookie ||
      !is_still_there(socket, lost)) {
    return false;
  }
  const bool ipv4 = option_of<int>(socket, SO_DOMAIN) == AF_INET;
  if ((ipv4 ? connect4(socket, lost) : connect6(socket, lost)) != 0) {
    return false;
  }
  static_cast<void>(option_of<int>(socket, SO_ERROR));
  return true;
}

/// Moves the sockets that it connects from `sockets` to `connected`, as cookies.
void reconnect_those_of(int process, SocketsByInode& sockets, std::unordered_set<std::uint64_t>& connected,
                        const std::stop_token& stop) {
  const auto opened = open_process(process);
  const auto descriptors = "/proc/" + std::to_string(process) + "/fd";
  for_each_number(descriptors, [&](int descriptor) {
    const auto inode = socket_inode(descriptors + '/' + std::to_string(descriptor));
    const auto found = inode ? sockets.find(*inode) : sockets.end();
    if (found != sockets.end() && connect_again(copy_descriptor(opened, descriptor), found->second)) {
      connected.insert(found->second.cookie);
      sockets.erase(found);
    }
    return !sockets.empty() && !stop.stop_requested();
  });
}

}  // namespace

// A copy of a descriptor of one's own needs no capability.
bool reconnects_sockets() {
  if (!sees_other_containers()) {
    return false;
  }
  const auto self = open_process(::getpid());
  const auto own = own_privileges("");
  return self && copy_descriptor(self, self.get()) && has_capability(own, CAP_SYS_PTRACE) &&
         has_capability(own, CAP_DAC_READ_SEARCH);
}

std::unordered_set<std::uint64_t> reconnect(SocketsByInode sockets, const std::set<std::uint64_t>& near,
                                            const std::stop_token& stop) {
  std::vector<int> first;
  std::vector<int> others;
  for_each_number("/proc", [&](int process) {
    (near.contains(netns_of(process)) ? first : others).push_back(process);
    return true;
  });
  std::unordered_set<std::uint64_t> connected;
  for (const auto* processes : {&first, &others}) {
    for (const int process : *processes) {
      if (sockets.empty() || stop.stop_requested()) {
        return connected;
      }
      reconnect_those_of(process, sockets, connected, stop);
    }
  }
  return connected;
}

}  // namespace lb::agent
