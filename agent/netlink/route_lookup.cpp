// SPDX-License-Identifier: Apache-2.0
#include "agent/netlink/route_lookup.hpp"

#include <linux/rtnetlink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "k8s/objects/raw_address.hpp"

namespace lb::agent {
namespace {

/// Receive buffer with room for one notification; of further ones only their existence matters.
constexpr int queue_bytes = 4096;

constexpr std::array<unsigned, 4> groups = {RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE, RTNLGRP_IPV4_RULE,
                                            RTNLGRP_IPV6_RULE};

maps::Fd open_changes() {
  std::uint32_t bits = 0;
  for (const auto group : groups) {
    bits |= 1U << (group - 1);
  }
  auto socket = netlink::open_notifications(NETLINK_ROUTE, bits);
  if (!socket) {
    spdlog::warn("cannot follow changes of routes ({})", std::strerror(errno));
    return socket;
  }
  static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &queue_bytes, sizeof(queue_bytes)));
  return socket;
}

}  // namespace

netlink::Request route_question(const k8s::Address& address) {
  const bool ipv4 = address.family() == k8s::Family::ipv4;
  rtmsg head{};
  head.rtm_family = ipv4 ? AF_INET : AF_INET6;
  head.rtm_dst_len = ipv4 ? 32 : 128;
  netlink::Request request(RTM_GETROUTE, netlink::Wanted::one, head);
  request.add_bytes(RTA_DST, k8s::raw_bytes(address));
  return request;
}

netlink::Request route_question(const k8s::Address& address, const Arrival& arrival) {
  auto request = route_question(address);
  request.add_bytes(RTA_SRC, k8s::raw_bytes(arrival.source));
  request.add(RTA_IIF, arrival.device);
  return request;
}

bool is_local_route(const nlmsghdr& head, netlink::Bytes body) {
  const auto route = netlink::read<rtmsg>(body);
  return head.nlmsg_type == RTM_NEWROUTE && route && route->rtm_type == RTN_LOCAL;
}

NextHop next_hop_of(const nlmsghdr& head, netlink::Bytes body) {
  const auto route = netlink::read<rtmsg>(body);
  if (head.nlmsg_type != RTM_NEWROUTE || !route || route->rtm_type != RTN_UNICAST) {
    return {};
  }
  NextHop hop;
  netlink::for_each_attribute(netlink::after(body, sizeof(rtmsg)), [&](auto type, netlink::Bytes content) {
    if (type == RTA_OIF) {
      hop.device = netlink::read<std::uint32_t>(content).value_or(0);
    }
    if ((type == RTA_GATEWAY || type == RTA_VIA) && hop.kind == HopKind::on_link) {
      hop.kind = HopKind::gateway;
    }
    if (type == RTA_ENCAP_TYPE) {
      hop.kind = HopKind::encapsulated;
    }
  });
  return hop;
}

RouteLookup::RouteLookup()
    : socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)), changes_(open_changes()) {}

NextHop RouteLookup::answer(const netlink::Request& question) const {
  NextHop hop;
  const auto take = [&hop](const auto& head, netlink::Bytes body) { hop = next_hop_of(head, body); };
  if (!socket_ || netlink::ask(socket_.get(), question, take)) {
    return {};
  }
  return hop;
}

NextHop RouteLookup::next_hop(const k8s::Address& address) const { return answer(route_question(address)); }

NextHop RouteLookup::next_hop(const k8s::Address& address, const Arrival& arrival) const {
  return answer(route_question(address, arrival));
}

bool RouteLookup::is_local(const k8s::Address& address) const {
  bool local = false;
  const auto take = [&local](const auto& head, netlink::Bytes body) { local = is_local_route(head, body); };
  if (!socket_) {
    return true;
  }
  const auto error = netlink::ask(socket_.get(), route_question(address), take);
  return local || (error && error != boost::system::errc::network_unreachable &&
                   error != boost::system::errc::host_unreachable);
}

bool RouteLookup::changed() const {
  bool changed = false;
  std::array<std::byte, 1> start{};
  while (::recv(changes_.get(), start.data(), start.size(), 0) >= 0 || errno == ENOBUFS) {
    changed = true;
  }
  return changed;
}

}  // namespace lb::agent
