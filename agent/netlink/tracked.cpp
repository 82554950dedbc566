// SPDX-License-Identifier: Apache-2.0
// ctnetlink messages: numbers in network byte order, tuples as nested attributes.
#include "agent/netlink/tracked.hpp"

#include <endian.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "agent/base/system_error.hpp"
#include "agent/netlink/netfilter.hpp"
#include "k8s/objects/raw_address.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;
using netlink::attribute;
using netlink::Bytes;
using netlink::read;
using netlink::Request;
using netlink::Wanted;

std::uint32_t number32(Bytes bytes) { return be32toh(read<std::uint32_t>(bytes).value_or(0)); }
std::uint16_t number16(Bytes bytes) { return be16toh(read<std::uint16_t>(bytes).value_or(0)); }

/// Reads the IPv4 address if present, else the IPv6 address.
std::optional<k8s::Address> read_address(Bytes ends, unsigned short ipv4, unsigned short ipv6) {
  const auto four = attribute(ends, ipv4);
  return k8s::read_address(four.empty() ? attribute(ends, ipv6) : four);
}

std::optional<TrackedTuple> read_tuple(Bytes bytes) {
  const auto ends = attribute(bytes, CTA_TUPLE_IP);
  const auto protocol = attribute(bytes, CTA_TUPLE_PROTO);
  const auto source = read_address(ends, CTA_IP_V4_SRC, CTA_IP_V6_SRC);
  const auto destination = read_address(ends, CTA_IP_V4_DST, CTA_IP_V6_DST);
  const auto number = read<std::uint8_t>(attribute(protocol, CTA_PROTO_NUM)).value_or(0);
  if (!source || !destination || (number != IPPROTO_TCP && number != IPPROTO_UDP)) {
    return std::nullopt;
  }
  return TrackedTuple{.source = *source,
                      .destination = *destination,
                      .source_port = number16(attribute(protocol, CTA_PROTO_SRC_PORT)),
                      .destination_port = number16(attribute(protocol, CTA_PROTO_DST_PORT)),
                      .protocol = number == IPPROTO_TCP ? LB_TCP : LB_UDP};
}

Request request_of(int message, Wanted wanted, int family) {
  return netfilter_request(NFNL_SUBSYS_CTNETLINK, message, wanted, family);
}

void add_byte(Request& request, std::uint16_t type, std::uint8_t value) {
  request.add_bytes(type, std::as_bytes(std::span(&value, 1)));
}

void add_tuple(Request& request, std::uint16_t type, const TrackedTuple& tuple) {
  const bool four = family_of(tuple) == AF_INET;
  request.nest(type, [&](Request& inner) {
    inner.nest(CTA_TUPLE_IP, [&](Request& ends) {
      ends.add_bytes(four ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, k8s::raw_bytes(tuple.source));
      ends.add_bytes(four ? CTA_IP_V4_DST : CTA_IP_V6_DST, k8s::raw_bytes(tuple.destination));
    });
    inner.nest(CTA_TUPLE_PROTO, [&](Request& protocol) {
      add_byte(protocol, CTA_PROTO_NUM, tuple.protocol);
      protocol.add_network_order(CTA_PROTO_SRC_PORT, tuple.source_port);
      protocol.add_network_order(CTA_PROTO_DST_PORT, tuple.destination_port);
    });
  });
}

/// Translates one end to exactly this address and port.
void add_translation(Request& request, std::uint16_t type, const k8s::Address& address, std::uint16_t port) {
  const bool four = address.family() == k8s::Family::ipv4;
  request.nest(type, [&](Request& range) {
    range.add_bytes(four ? CTA_NAT_V4_MINIP : CTA_NAT_V6_MINIP, k8s::raw_bytes(address));
    range.add_bytes(four ? CTA_NAT_V4_MAXIP : CTA_NAT_V6_MAXIP, k8s::raw_bytes(address));
    range.nest(CTA_NAT_PROTO, [&](Request& ports) {
      ports.add_network_order(CTA_PROTONAT_PORT_MIN, port);
      ports.add_network_order(CTA_PROTONAT_PORT_MAX, port);
    });
  });
}

/// TCP state established, with liberal window checks: the windows of both sides and their scales are unknown
/// here.
void add_established(Request& request) {
  nf_ct_tcp_flags flags{};
  flags.flags = flags.mask = IP_CT_TCP_FLAG_BE_LIBERAL;
  const auto liberal = std::as_bytes(std::span(&flags, 1));
  request.nest(CTA_PROTOINFO, [&](Request& info) {
    info.nest(CTA_PROTOINFO_TCP, [&](Request& tcp) {
      add_byte(tcp, CTA_PROTOINFO_TCP_STATE, TCP_CONNTRACK_ESTABLISHED);
      tcp.add_bytes(CTA_PROTOINFO_TCP_FLAGS_ORIGINAL, liberal);
      tcp.add_bytes(CTA_PROTOINFO_TCP_FLAGS_REPLY, liberal);
    });
  });
}

}  // namespace

int family_of(const TrackedTuple& tuple) {
  return tuple.source.family() == k8s::Family::ipv4 ? AF_INET : AF_INET6;
}

TrackedTuple reversed(const TrackedTuple& tuple) {
  return {.source = tuple.destination,
          .destination = tuple.source,
          .source_port = tuple.destination_port,
          .destination_port = tuple.source_port,
          .protocol = tuple.protocol};
}

std::optional<Tracked> read_tracked(Bytes body) {
  const auto attributes = netlink::after(body, sizeof(nfgenmsg));
  const auto original = read_tuple(attribute(attributes, CTA_TUPLE_ORIG));
  const auto reply = read_tuple(attribute(attributes, CTA_TUPLE_REPLY));
  if (!original || !reply || number16(attribute(attributes, CTA_ZONE)) != 0) {
    return std::nullopt;
  }
  return Tracked{.original = *original,
                 .reply = *reply,
                 .status = number32(attribute(attributes, CTA_STATUS)),
                 .mark = number32(attribute(attributes, CTA_MARK))};
}

// The kernel expects the untranslated reply tuple, and derives the translated one from the NAT attributes of
// both ends.
Request track_request(const Tracked& flow, std::uint32_t seconds) {
  const auto untranslated = reversed(flow.original);
  const auto& answers = flow.reply;
  auto request = request_of(IPCTNL_MSG_CT_NEW, Wanted::one, family_of(flow.original));
  request.with_flags(NLM_F_CREATE | NLM_F_EXCL);
  add_tuple(request, CTA_TUPLE_ORIG, flow.original);
  add_tuple(request, CTA_TUPLE_REPLY, untranslated);
  request.add_network_order(CTA_TIMEOUT, seconds);
  request.add_network_order(CTA_STATUS, std::uint32_t{IPS_CONFIRMED | IPS_SEEN_REPLY | IPS_ASSURED});
  if (flow.mark != 0) {
    request.add_network_order(CTA_MARK, flow.mark);
  }
  if (flow.original.protocol == LB_TCP) {
    add_established(request);
  }
  if (flow.has_other_destination()) {
    add_translation(request, CTA_NAT_DST, answers.source, answers.source_port);
  }
  if (answers.destination != untranslated.destination ||
      answers.destination_port != untranslated.destination_port) {
    add_translation(request, CTA_NAT_SRC, answers.destination, answers.destination_port);
  }
  return request;
}

error_code hand_to_conntrack(ConntrackTable& conntrack, const Tracked& flow) {
  const std::uint32_t seconds = flow.original.protocol == LB_TCP ? 86400 : 180;
  auto error = conntrack.track(flow, seconds);
  for (int attempt = 0; attempt < 3 && error.value() == EEXIST; ++attempt) {
    static_cast<void>(conntrack.erase(flow.original));
    error = conntrack.track(flow, seconds);
  }
  return error;
}

boost::system::result<Conntrack> Conntrack::open() {
  auto socket = open_netfilter();
  if (!socket) {
    return last_error();
  }
  return Conntrack(std::move(socket));
}

// A kernel before 5.15 ignores the filter and reports all connections.
error_code Conntrack::for_each_translated(int family,
                                          const std::function<void(const Tracked&)>& visit) const {
  auto request = request_of(IPCTNL_MSG_CT_GET, Wanted::all, family);
  request.add_network_order(CTA_STATUS, std::uint32_t{IPS_DST_NAT});
  request.add_network_order(CTA_STATUS_MASK, std::uint32_t{IPS_DST_NAT});
  return netlink::ask(socket_.get(), std::move(request), [&](const auto&, Bytes body) {
    const auto flow = read_tracked(body);
    if (flow && (flow->status & IPS_DST_NAT) != 0) {
      visit(*flow);
    }
  });
}

boost::system::result<Tracked> Conntrack::find(const TrackedTuple& original) {
  auto request = request_of(IPCTNL_MSG_CT_GET, Wanted::one, family_of(original));
  add_tuple(request, CTA_TUPLE_ORIG, original);
  std::optional<Tracked> found;
  const auto error = netlink::ask(socket_.get(), std::move(request),
                                  [&](const auto&, Bytes body) { found = read_tracked(body); });
  if (error) {
    return error;
  }
  // The kernel also finds a connection by its reply tuple, if conntrack picked it up by a reply packet.
  if (found && found->reply == original) {
    std::swap(found->original, found->reply);
  }
  if (!found || found->original != original) {
    return system_error(ENOENT);
  }
  return *found;
}

error_code Conntrack::erase(const TrackedTuple& original) {
  auto request = request_of(IPCTNL_MSG_CT_DELETE, Wanted::one, family_of(original));
  add_tuple(request, CTA_TUPLE_ORIG, original);
  return netlink::ask(socket_.get(), std::move(request), [](const auto&, Bytes) {});
}

error_code Conntrack::track(const Tracked& flow, std::uint32_t seconds) {
  return netlink::ask(socket_.get(), track_request(flow, seconds), [](const auto&, Bytes) {});
}

}  // namespace lb::agent
