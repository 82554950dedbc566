// SPDX-License-Identifier: Apache-2.0
// Table commands that change the node around the programs: sockets, and connections in conntrack.
#include <fmt/format.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "agent/netlink/netfilter.hpp"
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
  if (::setsockopt(fd.get(), SOL_IPV6, IPV6_TRANSPARENT, &on, sizeof(on)) != 0) {
    throw std::runtime_error(fmt::format("IPV6_TRANSPARENT: {}", std::strerror(errno)));
  }
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)) != 0) {
    throw std::runtime_error(fmt::format("bind: {}", std::strerror(errno)));
  }
  if (words.at(3) == "-") {
    return fd;
  }
  const auto peer = end_of(words, 3);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)) != 0 &&
      errno != EINPROGRESS) {
    throw std::runtime_error(fmt::format("connect: {}", std::strerror(errno)));
  }
  return fd;
}

void run_nft(const std::string& commands) {
  if (std::system(fmt::format("nft '{}'", commands).c_str()) != 0) {
    throw std::runtime_error(fmt::format("nft refused {}", commands));
  }
}

/// Deletes all of this network namespace's conntrack entries, of both families.
void flush_connections() {
  const auto socket = agent::open_netfilter();
  if (!socket) {
    throw std::runtime_error("no socket of ctnetlink");
  }
  auto request = agent::netfilter_request(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE,
                                          agent::netlink::Wanted::one, AF_UNSPEC);
  const auto failed = agent::netlink::ask(socket.get(), std::move(request), [](const auto&, auto) {});
  if (failed) {
    throw std::runtime_error(fmt::format("flushing conntrack: {}", failed.message()));
  }
}

}  // namespace

/// hold ADDRESS PORT PEER|- PORT [udp]: a socket that waits for its peer, until the end of the case
void World::hold(const Words& words) { sockets_.push_back(socket_of(words)); }

/// track ADDRESS PORT PEER PORT tcp|udp: a connection that only the kernel's conntrack still knows
void World::track(const Words& words) {
  if (!tracking_) {
    run_nft(
        "add table inet lb_test; add chain inet lb_test out { type filter hook output priority 0; }; "
        "add rule inet lb_test out ct state new accept");
    tracking_ = true;
  }
  const auto fd = socket_of(words);
  if (is_udp(words) && ::send(fd.get(), "x", 1, 0) != 1) {
    throw std::runtime_error(fmt::format("send: {}", std::strerror(errno)));
  }
}

/// Otherwise conntrack would know the sockets of later cases, too, and tuples of this case would be in use
/// there.
void World::stop_tracking() {
  if (!tracking_) {
    return;
  }
  run_nft("delete table inet lb_test");
  flush_connections();
  tracking_ = false;
}

}  // namespace lb::test
