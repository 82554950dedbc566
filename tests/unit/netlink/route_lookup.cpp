// SPDX-License-Identifier: Apache-2.0
// The route request to the kernel, and the interpretation of its reply (REL-99).
#include "agent/netlink/route_lookup.hpp"

#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <vector>

namespace lb::agent {
namespace {

k8s::Address address(const char* text) { return *k8s::Address::parse(text); }

/// The next hop in a reply with these attributes, built by the writer of requests; the last `cut` bytes are
/// missing.
NextHop hop_of(std::uint8_t type, const std::vector<std::uint16_t>& attributes, std::size_t cut = 0) {
  rtmsg route{};
  route.rtm_family = AF_INET;
  route.rtm_type = type;
  netlink::Request answer(RTM_NEWROUTE, netlink::Wanted::nothing, route);
  for (const auto attribute : attributes) {
    answer.add(attribute, std::uint32_t{7});
  }
  const auto bytes = answer.bytes();
  const auto head = *netlink::read<nlmsghdr>(bytes);
  return next_hop_of(head, bytes.subspan(sizeof(nlmsghdr), bytes.size() - sizeof(nlmsghdr) - cut));
}

TEST_CASE("REL-99: a question names the address in its family's form") {
  auto ipv4 = route_question(address("10.244.2.10"));
  auto head = *netlink::read<rtmsg>(ipv4.bytes().subspan(sizeof(nlmsghdr)));
  CHECK(head.rtm_family == AF_INET);
  CHECK(head.rtm_dst_len == 32);
  CHECK(netlink::attribute(ipv4.bytes().subspan(sizeof(nlmsghdr) + sizeof(rtmsg)), RTA_DST).size() == 4);
  auto ipv6 = route_question(address("fd00::1"));
  head = *netlink::read<rtmsg>(ipv6.bytes().subspan(sizeof(nlmsghdr)));
  CHECK(head.rtm_family == AF_INET6);
  CHECK(head.rtm_dst_len == 128);
  CHECK(netlink::attribute(ipv6.bytes().subspan(sizeof(nlmsghdr) + sizeof(rtmsg)), RTA_DST).size() == 16);
}

TEST_CASE("REL-99: a question about a forwarded packet names its source and its device") {
  for (const auto* source : {"10.244.1.10", "fd00::5"}) {
    const auto from = address(source);
    auto question = route_question(from, Arrival{from, 7});
    const auto attributes = question.bytes().subspan(sizeof(nlmsghdr) + sizeof(rtmsg));
    CHECK(netlink::attribute(attributes, RTA_SRC).size() == netlink::attribute(attributes, RTA_DST).size());
    CHECK(netlink::read<std::uint32_t>(netlink::attribute(attributes, RTA_IIF)) == 7U);
  }
}

TEST_CASE("REL-99: an answer names a device, or that there is none") {
  CHECK(hop_of(RTN_UNICAST, {RTA_OIF}) == NextHop{7, HopKind::on_link});
  CHECK(hop_of(RTN_UNICAST, {RTA_OIF, RTA_GATEWAY}) == NextHop{7, HopKind::gateway});
  CHECK(hop_of(RTN_UNICAST, {RTA_VIA, RTA_OIF}) == NextHop{7, HopKind::gateway});
  CHECK(hop_of(RTN_UNICAST, {RTA_ENCAP_TYPE, RTA_OIF, RTA_GATEWAY}) == NextHop{7, HopKind::encapsulated});
  CHECK(hop_of(RTN_LOCAL, {RTA_OIF}) == NextHop{});
  CHECK(hop_of(RTN_BLACKHOLE, {RTA_OIF}) == NextHop{});
  CHECK(hop_of(RTN_UNICAST, {RTA_OIF}, 1) == NextHop{});
  CHECK(hop_of(RTN_UNICAST, {RTA_OIF}, 12) == NextHop{});
}

TEST_CASE("REL-99: the kernel knows the way to this host's own addresses") {
  const RouteLookup routes;
  CHECK(routes.next_hop(address("127.0.0.1")) == NextHop{});
}

}  // namespace
}  // namespace lb::agent
