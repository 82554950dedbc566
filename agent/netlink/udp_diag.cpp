// SPDX-License-Identifier: Apache-2.0
// One request for each socket: the kernel looks its addresses up, then compares the cookie.
#include "agent/netlink/udp_diag.hpp"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "agent/base/system_error.hpp"
#include "agent/netlink/netlink.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;
using netlink::Bytes;
using netlink::Wanted;

using Address = std::span<const std::uint8_t, 16>;
constexpr std::size_t ipv4_at = 12;  // in ::ffff:a.b.c.d

bool is_ipv4(Address address) {
  return std::ranges::all_of(address.first<10>(), [](std::uint8_t byte) { return byte == 0; }) &&
         address[10] == 0xff && address[11] == 0xff;
}

void copy(__be32 (&to)[4], Address from, bool ipv4) {
  const auto used = ipv4 ? from.subspan(ipv4_at) : std::span<const std::uint8_t>(from);
  std::memcpy(to, used.data(), used.size());
}

/// An IPv6 socket that is connected over IPv4 is found by IPv4.
inet_diag_req_v2 request_for(const lb_lost_socket& socket) {
  const bool ipv4 = is_ipv4(socket.peer);
  inet_diag_req_v2 request{};
  request.sdiag_family = ipv4 ? AF_INET : AF_INET6;
  request.sdiag_protocol = IPPROTO_UDP;
  auto& id = request.id;
  id.idiag_sport = htons(socket.local_port);
  id.idiag_dport = htons(socket.peer_port);
  copy(id.idiag_src, socket.local, ipv4);
  copy(id.idiag_dst, socket.peer, ipv4);
  id.idiag_if = socket.device;
  id.idiag_cookie[0] = static_cast<__u32>(socket.cookie);
  id.idiag_cookie[1] = static_cast<__u32>(socket.cookie >> 32);
  return request;
}

}  // namespace

// No socket has this cookie, so a kernel that supports the request reports that none was found.
bool ends_udp_sockets() {
  const auto diag = open_socket_diag();
  lb_lost_socket no_socket{};
  no_socket.cookie = 0x6c62;
  return diag && end_udp_socket(diag->get(), no_socket).value() == ENOENT;
}

boost::system::result<maps::Fd> open_socket_diag() {
  maps::Fd diag(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!diag) {
    return last_error();
  }
  return diag;
}

// This request names the ends the other way round, by which the kernel looks the socket up.
boost::system::result<std::uint64_t> udp_socket_inode(int diag, const lb_lost_socket& socket) {
  auto request = request_for(socket);
  std::swap(request.id.idiag_src, request.id.idiag_dst);
  std::swap(request.id.idiag_sport, request.id.idiag_dport);
  std::uint64_t inode = 0;
  const auto error =
      netlink::ask(diag, {SOCK_DIAG_BY_FAMILY, Wanted::one, request}, [&](const auto&, Bytes body) {
        const auto found = netlink::read<inet_diag_msg>(body);
        inode = found ? found->idiag_inode : 0;
      });
  if (error || inode == 0) {
    return error ? error : system_error(ENOENT);
  }
  return inode;
}

error_code end_udp_socket(int diag, const lb_lost_socket& socket) {
  return netlink::ask(diag, {SOCK_DESTROY, Wanted::one, request_for(socket)}, [](const auto&, Bytes) {});
}

}  // namespace lb::agent
