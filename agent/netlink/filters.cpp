// SPDX-License-Identifier: Apache-2.0
// Lists tc filters by one rtnetlink dump.
#include "agent/netlink/filters.hpp"

#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <optional>
#include <utility>

#include "agent/netlink/netlink.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

using netlink::attribute;
using netlink::Bytes;
using netlink::read;
using netlink::text_of;

// The kernel lists each priority once with handle 0 before its filters; that entry is skipped.
std::optional<TcFilter> read_filter(Bytes body) {
  const auto head = read<tcmsg>(body);
  if (!head || head->tcm_handle == 0) {
    return std::nullopt;
  }
  const auto attributes = netlink::after(body, sizeof(tcmsg));
  TcFilter filter{TC_H_MAJ(head->tcm_info) >> 16, head->tcm_handle, 0,
                  text_of(attribute(attributes, TCA_KIND))};
  const auto options = attribute(attributes, TCA_OPTIONS);
  if (filter.name == "bpf") {
    if (auto name = text_of(attribute(options, TCA_BPF_NAME)); !name.empty()) {
      filter.name = std::move(name);
    }
    filter.program = read<std::uint32_t>(attribute(options, TCA_BPF_ID)).value_or(0);
  }
  return filter;
}

}  // namespace

// FNV-1a, and constant: the next version of the agent must find the filters.
FilterHandles filter_handles_of(std::string_view pins) {
  std::uint32_t hash = 0x811c9dc5;
  for (const char letter : pins) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x01000193;
  }
  constexpr std::uint32_t count = 8;
  const auto first = all_filter_handles.first | ((hash ^ hash >> 24) & 0xffffff & ~(count - 1));
  return {first, first + count - 1};
}

// The dump's error is ignored: the kernel reports no filters before it (no such qdisc).
std::vector<TcFilter> filters_of(int device, TcSide side) {
  std::vector<TcFilter> filters;
  const maps::Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  tcmsg which{};
  which.tcm_family = AF_UNSPEC;
  which.tcm_ifindex = device;
  const std::uint32_t minor = side == TcSide::ingress ? TC_H_MIN_INGRESS : TC_H_MIN_EGRESS;
  which.tcm_parent = TC_H_MAKE(TC_H_CLSACT, minor);
  static_cast<void>(netlink::ask(
      socket.get(), {RTM_GETTFILTER, netlink::Wanted::all, which}, [&](const auto& head, Bytes body) {
        if (auto filter = read_filter(body); filter && head.nlmsg_type == RTM_NEWTFILTER) {
          filters.push_back(std::move(*filter));
        }
      }));
  return filters;
}

}  // namespace lb::agent
