// SPDX-License-Identifier: Apache-2.0
// Uses two netlink sockets: one receives change notifications, the other one dumps the whole list.
#include "agent/netlink/xfrm.hpp"

#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>
// linux/xfrm.h needs definitions from the headers above.
#include <linux/xfrm.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "k8s/objects/raw_address.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

namespace asio = boost::asio;
using netlink::Bytes;

/// Pause before policies that could not be read are read again.
constexpr std::chrono::seconds retry_pause{1};

constexpr std::uint8_t ipv4_bits = 96;  // prefix bits before an IPv4 address in 16 bytes

void add_range(XfrmPolicies& policies, const k8s::Prefix& range) {
  const auto at = std::ranges::lower_bound(policies.ranges, range);
  if (at == policies.ranges.end() || *at != range) {
    policies.ranges.insert(at, range);
  }
}

/// Clears the bits after the prefix length, which the kernel ignores.
k8s::Prefix masked(k8s::Prefix range) {
  for (std::size_t at = 0; at < range.address.bytes.size(); ++at) {
    const auto kept = std::clamp<int>(range.length - static_cast<int>(8 * at), 0, 8);
    range.address.bytes.at(at) &= static_cast<std::uint8_t>(0xff00U >> static_cast<unsigned>(kept));
  }
  return range;
}

std::optional<k8s::Prefix> range_of(int family, const xfrm_address_t& address, std::uint8_t length) {
  const auto bytes = std::as_bytes(std::span(address.a6));
  if (family == AF_INET && length <= 32) {
    return masked({.address = *k8s::read_address(bytes.first<4>()),
                   .length = static_cast<std::uint8_t>(ipv4_bits + length)});
  }
  if (family == AF_INET6 && length <= 128) {
    return masked({.address = *k8s::read_address(bytes), .length = length});
  }
  return std::nullopt;
}

/// The peer that a policy covers: the destination of packets that leave. Templates of forward policies check
/// how a packet arrived, so they cover its source; their destination is a host behind this node.
std::optional<k8s::Prefix> peer_of(const xfrm_userpolicy_info& policy) {
  const auto& selector = policy.sel;
  if (policy.dir == XFRM_POLICY_FWD && policy.action != XFRM_POLICY_BLOCK && selector.prefixlen_s > 0) {
    return range_of(selector.family, selector.saddr, selector.prefixlen_s);
  }
  return range_of(selector.family, selector.daddr, selector.prefixlen_d);
}

/// Whether some template is required. For out policies every template counts: with a state, the packet is
/// encrypted.
bool demands(const xfrm_userpolicy_info& policy, Bytes templates) {
  if (policy.dir != XFRM_POLICY_FWD) {
    return !templates.empty();
  }
  for (; templates.size() >= sizeof(xfrm_user_tmpl); templates = templates.subspan(sizeof(xfrm_user_tmpl))) {
    if (netlink::read<xfrm_user_tmpl>(templates)->optional == 0) {
      return true;
    }
  }
  return false;
}

/// A policy with an xfrm interface id applies to packets routed to that device, which only the stack sends.
bool binds_what_leaves(const xfrm_userpolicy_info& policy, Bytes attributes) {
  const bool out = policy.dir == XFRM_POLICY_OUT || policy.dir == XFRM_POLICY_FWD;
  const bool asks =
      policy.action == XFRM_POLICY_BLOCK || demands(policy, netlink::attribute(attributes, XFRMA_TMPL));
  const auto device = netlink::read<std::uint32_t>(netlink::attribute(attributes, XFRMA_IF_ID)).value_or(0);
  return out && asks && device == 0;
}

void take_default(XfrmPolicies& policies, Bytes body) {
  const auto action = netlink::read<xfrm_userpolicy_default>(body);
  if (action && (action->out == XFRM_USERPOLICY_BLOCK || action->fwd == XFRM_USERPOLICY_BLOCK)) {
    ++policies.count;
    add_range(policies, k8s::Prefix());
    add_range(policies, {.address = *k8s::Address::parse("0.0.0.0"), .length = ipv4_bits});
  }
}

/// Returns nullopt if the list changed during the dump, or cannot be read.
std::optional<XfrmPolicies> read_policies() {
  const maps::Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_XFRM));
  XfrmPolicies policies;
  const auto take = [&](const auto& head, Bytes body) { take_policy(policies, head, body); };
  if (!socket ||
      netlink::ask(socket.get(), {XFRM_MSG_GETPOLICY, netlink::Wanted::all, xfrm_userpolicy_id{}}, take)) {
    return std::nullopt;
  }
  // Kernels before 5.14 have no default policy but accept.
  static_cast<void>(netlink::ask(
      socket.get(), {XFRM_MSG_GETDEFAULT, netlink::Wanted::one, xfrm_userpolicy_default{}}, take));
  return policies;
}

/// Opens a socket for change notifications; invalid if the kernel has no IPsec. The kernel reports a policy
/// that it deleted for its age to the other group only.
maps::Fd open_listener() {
  auto socket = netlink::open_notifications(NETLINK_XFRM,
                                            1U << (XFRMNLGRP_POLICY - 1U) | 1U << (XFRMNLGRP_EXPIRE - 1U));
  if (!socket && errno != EPROTONOSUPPORT) {
    spdlog::warn("cannot follow IPsec policies ({}): what they should encrypt may leave unencrypted",
                 std::strerror(errno));
  }
  return socket;
}

}  // namespace

void take_policy(XfrmPolicies& policies, const nlmsghdr& head, Bytes body) {
  if (head.nlmsg_type == XFRM_MSG_GETDEFAULT) {
    take_default(policies, body);
  }
  const auto policy = netlink::read<xfrm_userpolicy_info>(body);
  if (head.nlmsg_type != XFRM_MSG_NEWPOLICY || !policy ||
      !binds_what_leaves(*policy, netlink::after(body, sizeof(*policy)))) {
    return;
  }
  if (const auto range = peer_of(*policy)) {
    ++policies.count;
    add_range(policies, *range);
  }
}

struct XfrmWatch::State {
  State(asio::io_context& context, std::function<void()> notify)
      : events(context), timer(context), changed(std::move(notify)) {
    if (const auto listener = open_listener(); listener) {
      events.assign(::dup(listener.get()));
      if (auto first = read_policies()) {
        policies = std::move(*first);
      } else {
        retry();
      }
      wait();
    }
  }

  void wait();
  [[nodiscard]] bool drain();
  void refresh();
  void retry();

  asio::posix::stream_descriptor events;
  asio::steady_timer timer;
  std::function<void()> changed;
  XfrmPolicies policies;
};

void XfrmWatch::State::wait() {
  events.async_wait(asio::posix::stream_descriptor::wait_read,
                    [this](const boost::system::error_code& error) {
                      if (!error) {
                        if (drain()) {
                          refresh();
                        }
                        wait();
                      }
                    });
}

/// Drains notifications: whatever they reported or lost is in the list that is read afterwards. Returns
/// whether that may have changed: a node may have many states (SAs), which expire all the time.
bool XfrmWatch::State::drain() {
  std::array<std::byte, 65536> notification{};
  bool changed_list = false;
  while (true) {
    const auto length = ::recv(events.native_handle(), notification.data(), notification.size(), 0);
    if (length < 0 && errno != ENOBUFS) {
      return changed_list;
    }
    // The kernel sends each notification by itself.
    const auto head =
        netlink::read<nlmsghdr>(Bytes(notification).first(length < 0 ? 0 : static_cast<std::size_t>(length)));
    changed_list = changed_list || !head || head->nlmsg_type != XFRM_MSG_EXPIRE;
  }
}

/// Changes during the read wake this again.
void XfrmWatch::State::refresh() {
  auto now = read_policies();
  if (!now) {
    retry();
  } else if (*now != policies) {
    policies = std::move(*now);
    changed();
  }
}

void XfrmWatch::State::retry() {
  timer.expires_after(retry_pause);
  timer.async_wait([this](const boost::system::error_code& stopped) {
    if (!stopped) {
      refresh();
    }
  });
}

XfrmWatch::XfrmWatch(asio::io_context& context, std::function<void()> changed)
    : state_(std::make_unique<State>(context, std::move(changed))) {}

XfrmWatch::~XfrmWatch() = default;

const XfrmPolicies& XfrmWatch::policies() const noexcept { return state_->policies; }

}  // namespace lb::agent
