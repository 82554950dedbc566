// Lists each family's connected UDP sockets, then sends one request for each socket to destroy.
#include "agent/netlink/udp_diag.hpp"

#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "agent/base/system_error.hpp"
#include "agent/netlink/netlink.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;
using netlink::Bytes;
using netlink::Wanted;

constexpr std::uint32_t connected = 1U << 1;  // TCP_ESTABLISHED, which connected UDP sockets are in too

inet_diag_req_v2 request_for(int family) {
  inet_diag_req_v2 request{};
  request.sdiag_family = static_cast<__u8>(family);
  request.sdiag_protocol = IPPROTO_UDP;
  request.idiag_states = connected;
  return request;
}

std::uint64_t cookie_of(const inet_diag_msg& message) {
  return message.id.idiag_cookie[0] | std::uint64_t{message.id.idiag_cookie[1]} << 32;
}

// Identifies the socket by its addresses and its cookie: a socket reconnected meanwhile is not found.
error_code end_socket(int diag, const inet_diag_msg& message) {
  auto request = request_for(message.idiag_family);
  request.id = message.id;
  return netlink::ask(diag, {SOCK_DESTROY, Wanted::one, request}, [](const auto&, Bytes) {});
}

}  // namespace

// No socket has this cookie, so a kernel that supports the request reports that none was found.
bool ends_udp_sockets() {
  const auto diag = open_socket_diag();
  if (!diag) {
    return false;
  }
  inet_diag_msg no_socket{};
  no_socket.idiag_family = AF_INET;
  no_socket.id.idiag_cookie[0] = 0x6c62;
  return end_socket(diag->get(), no_socket).value() == ENOENT;
}

boost::system::result<maps::Fd> open_socket_diag() {
  maps::Fd diag(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!diag) {
    return last_error();
  }
  return diag;
}

boost::system::result<std::uint64_t> end_udp_sockets(int diag, const std::set<std::uint64_t>& cookies) {
  std::uint64_t count = 0;
  for (const int family : {AF_INET, AF_INET6}) {
    std::vector<inet_diag_msg> lost;
    const netlink::Request all(SOCK_DIAG_BY_FAMILY, Wanted::all, request_for(family));
    const auto error = netlink::ask(diag, all, [&](const auto&, Bytes body) {
      const auto message = netlink::read<inet_diag_msg>(body);
      if (message && cookies.contains(cookie_of(*message))) {
        lost.push_back(*message);
      }
    });
    if (error) {
      return error;
    }
    count += static_cast<std::uint64_t>(
        std::ranges::count_if(lost, [&](const auto& each) { return !end_socket(diag, each); }));
  }
  return count;
}

}  // namespace lb::agent
