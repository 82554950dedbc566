// Table commands that change the node around the programs: sockets, and connections in conntrack.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

sockaddr_in6 end_of(const Words& words, std::size_t at) {
  sockaddr_in6 address{};
  const auto bytes = address_of(words.at(at));
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<std::uint16_t>(std::stoul(words.at(at + 1))));
  std::memcpy(&address.sin6_addr, bytes.data(), bytes.size());
  return address;
}

bool is_udp(const Words& words) { return words.size() > 5 && words[5] == "udp"; }

/// A socket of this node bound to ADDRESS PORT, connecting to PEER PORT; unconnected if PEER is "-".
maps::Fd socket_of(const Words& words) {
  const int type = is_udp(words) ? SOCK_DGRAM : SOCK_STREAM;
  maps::Fd fd(::socket(AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto own = end_of(words, 1);
  const int on = 1;  // a client's address is not one of this node's
  if (::setsockopt(fd.get(), SOL_IPV6, IPV6_TRANSPARENT, &on, sizeof(on)) != 0)
    throw std::runtime_error(fmt::format("IPV6_TRANSPARENT: {}", std::strerror(errno)));
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)) != 0)
    throw std::runtime_error(fmt::format("bind: {}", std::strerror(errno)));
  if (words.at(3) == "-") return fd;
  const auto peer = end_of(words, 3);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)) != 0 &&
      errno != EINPROGRESS)
    throw std::runtime_error(fmt::format("connect: {}", std::strerror(errno)));
  return fd;
}

}  // namespace

/// hold ADDRESS PORT PEER|- PORT [udp]: a socket that waits for its peer, until the end of the case
void World::hold(const Words& words) { sockets_.push_back(socket_of(words)); }

/// track ADDRESS PORT PEER PORT tcp|udp: a connection that only the kernel's conntrack still knows
void World::track(const Words& words) {
  if (!tracking_) {
    const int failed = std::system(
        "nft 'add table inet lb_test; add chain inet lb_test out { type filter hook output priority 0; }; "
        "add rule inet lb_test out ct state new accept'");
    if (failed != 0) throw std::runtime_error("nft refused to switch conntrack on");
    tracking_ = true;
  }
  const auto fd = socket_of(words);
  if (is_udp(words) && ::send(fd.get(), "x", 1, 0) != 1)
    throw std::runtime_error(fmt::format("send: {}", std::strerror(errno)));
}

}  // namespace lb::test
