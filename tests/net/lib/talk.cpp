// SPDX-License-Identifier: Apache-2.0
// TCP and UDP conversations.
#include "tests/net/lib/talk.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <vector>

namespace lb::test {
namespace {

constexpr int timeout_ms =
    3000;  // milliseconds without progress: a lost SYN-ACK is sent again after one second
constexpr std::chrono::seconds longest{20};

bool would_block() { return errno == EAGAIN || errno == EINTR; }

bool at_end(int connected) {
  pollfd wait{connected, POLLIN, 0};
  std::array<char, 16> buffer{};
  return ::poll(&wait, 1, timeout_ms) == 1 && ::recv(connected, buffer.data(), buffer.size(), 0) == 0;
}

std::optional<End> talk_by_tcp(const Socket& client, const Socket& server, const End& where,
                               std::size_t bytes) {
  if (client.connect(where) != 0) {
    return std::nullopt;
  }
  const auto taken = take(server);
  if (!taken || !pass(client.fd(), taken.get(), bytes) || !pass(taken.get(), client.fd(), bytes)) {
    return std::nullopt;
  }
  const auto seen = peer_of(taken.get());
  ::shutdown(client.fd(), SHUT_WR);
  if (!at_end(taken.get())) {
    return std::nullopt;
  }
  ::shutdown(taken.get(), SHUT_WR);
  return at_end(client.fd()) ? seen : std::nullopt;
}

std::optional<End> talk_by_udp(const Socket& client, const Socket& server, const End& where) {
  std::optional<End> seen;
  for (const auto* words : {"one", "two", "three"}) {
    if (client.send_to(where, words) != 0) {
      return std::nullopt;
    }
    seen = echo_once(server);
    const auto answer = client.receive();
    if (!seen || !answer || answer->words != words || !(answer->from == where)) {
      return std::nullopt;
    }
  }
  return seen;
}

/// A source port that no conversation has used: a UDP flow outlives its socket, and a new socket with the
/// same source and destination would correctly get the same backend.
std::uint16_t unused_port() {
  constexpr std::uint16_t first = 33000;
  constexpr std::uint16_t last = 60000;
  static std::uint16_t next = last;
  next = next < last ? static_cast<std::uint16_t>(next + 1) : first;
  return next;
}

}  // namespace

Socket serve_at(const Host& host, int type, const End& where) {
  const auto family = where.address.family() == k8s::Family::ipv4 ? AF_INET : AF_INET6;
  auto server = host.socket(family, type);
  if (server.bind(where) != 0 || (type == SOCK_STREAM && server.listen() != 0)) {
    throw std::runtime_error("cannot serve at " + text(where));
  }
  return server;
}

bool pass(int from, int to, std::size_t bytes) {
  std::vector<char> buffer(65536, 'x');
  std::size_t sent = 0;
  std::size_t got = 0;
  const auto deadline = std::chrono::steady_clock::now() + longest;
  while (got < bytes && std::chrono::steady_clock::now() < deadline) {
    std::array<pollfd, 2> waits = {
        {{to, POLLIN, 0}, {from, static_cast<short>(sent < bytes ? POLLOUT : 0), 0}}};
    if (::poll(waits.data(), waits.size(), timeout_ms) <= 0) {
      return false;
    }
    if ((waits[1].revents & (POLLOUT | POLLERR)) != 0 && sent < bytes) {
      const auto size =
          ::send(from, buffer.data(), std::min(bytes - sent, buffer.size()), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (size < 0 && !would_block()) {
        return false;
      }
      sent += size > 0 ? static_cast<std::size_t>(size) : 0;
    }
    if (waits[0].revents != 0) {
      const auto size = ::recv(to, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (size == 0 || (size < 0 && !would_block())) {
        return false;
      }
      got += size > 0 ? static_cast<std::size_t>(size) : 0;
    }
  }
  return got == bytes;
}

maps::Fd take(const Socket& server) {
  pollfd wait{server.fd(), POLLIN, 0};
  if (::poll(&wait, 1, timeout_ms) != 1) {
    return {};
  }
  return maps::Fd(::accept4(server.fd(), nullptr, nullptr, SOCK_CLOEXEC));
}

std::optional<End> talk(const Host& client, const Socket& server, int type, const End& where,
                        std::size_t bytes) {
  const auto family = where.address.family() == k8s::Family::ipv4 ? AF_INET : AF_INET6;
  auto socket = client.socket(family, type);
  if (type == SOCK_DGRAM && socket.bind(end(family == AF_INET ? "0.0.0.0" : "::", unused_port())) != 0) {
    return std::nullopt;
  }
  return type == SOCK_STREAM ? talk_by_tcp(socket, server, where, bytes) : talk_by_udp(socket, server, where);
}

}  // namespace lb::test
