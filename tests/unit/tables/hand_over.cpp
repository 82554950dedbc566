// SPDX-License-Identifier: Apache-2.0
// Which flows can be handed over to conntrack, and the entries made for them.
#include "agent/tables/hand_over.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <iterator>
#include <optional>

namespace lb::agent {
namespace {

using Four = std::array<std::uint8_t, 4>;
constexpr Four client = {192, 0, 2, 7}, node = {10, 0, 0, 10}, service = {10, 96, 0, 80},
               pod = {10, 244, 2, 10};

lb_flow4_key request_key(lb_protocol protocol) {
  lb_flow4_key key{};
  std::ranges::copy(client, std::begin(key.source));
  std::ranges::copy(service, std::begin(key.destination));
  key.source_port = 40000;
  key.destination_port = 80;
  key.protocol = protocol;
  return key;
}

/// A flow to the pod, with the node's or the client's address as source.
lb_flow4 request_flow(lb_path path) {
  lb_flow4 flow{};
  std::ranges::copy(path == LB_PATH_REDIRECT ? node : client, std::begin(flow.source.address));
  std::ranges::copy(pod, std::begin(flow.destination.address));
  flow.source.port = path == LB_PATH_REDIRECT ? 1042 : 40000;
  flow.destination.port = 8080;
  flow.track.path = path;
  flow.track.side = LB_UPLINK_INGRESS;
  flow.track.state = LB_OPEN;
  flow.track.source_nat = path == LB_PATH_REDIRECT ? LB_YES : LB_NO;
  return flow;
}

k8s::Address address(const Four& bytes) {
  k8s::Address made;
  made.bytes[10] = made.bytes[11] = 0xff;
  std::ranges::copy(bytes, made.bytes.begin() + 12);
  return made;
}

}  // namespace

TEST_CASE("a flow with the node's address is one with both ends translated") {
  for (const auto protocol : {LB_TCP, LB_UDP}) {
    const auto tracked = tracked_of(request_key(protocol), request_flow(LB_PATH_REDIRECT));
    REQUIRE(tracked);
    CHECK(tracked->original == TrackedTuple{address(client), address(service), 40000, 80, protocol});
    CHECK(tracked->reply == TrackedTuple{address(pod), address(node), 8080, 1042, protocol});
    CHECK(tracked->has_other_destination());
  }
}

TEST_CASE("a flow by the stack keeps its client") {
  const auto tracked = tracked_of(request_key(LB_TCP), request_flow(LB_PATH_STACK));
  REQUIRE(tracked);
  CHECK(tracked->reply == TrackedTuple{address(pod), address(client), 8080, 40000, LB_TCP});
}

TEST_CASE("an IPv6 flow is one as well") {
  lb_flow6_key key{};
  key.source[0] = key.destination[0] = 0xfd;
  key.source[15] = 1;
  key.destination[15] = 2;
  key.source_port = 40000;
  key.destination_port = 53;
  key.protocol = LB_UDP;
  lb_flow6 flow{};
  std::ranges::copy(key.source, std::begin(flow.source));
  flow.destination[0] = 0xfd;
  flow.destination[15] = 3;
  flow.source_port = 40000;
  flow.destination_port = 5353;
  flow.track.side = LB_POD_INGRESS;
  const auto tracked = tracked_of(key, flow);
  REQUIRE(tracked);
  CHECK(tracked->original.destination.text() == "fd00::2");
  CHECK(tracked->reply.source.text() == "fd00::3");
  CHECK(tracked->reply.source_port == 5353);
}

TEST_CASE("what conntrack cannot have stays ours") {
  const auto key = request_key(LB_TCP);
  const auto usual = request_flow(LB_PATH_REDIRECT);
  REQUIRE(tracked_of(key, usual));
  CHECK_FALSE(tracked_of(request_key(LB_SCTP), usual));
  auto other = usual;
  other.track.direction = LB_REPLY;
  CHECK_FALSE(tracked_of(key, other));
  other = usual;
  other.track.forwarded = LB_YES;
  CHECK_FALSE(tracked_of(key, other));
  other = usual;
  other.track.side = LB_UPLINK_EGRESS;
  CHECK_FALSE(tracked_of(key, other));
}

}  // namespace lb::agent
