// SPDX-License-Identifier: Apache-2.0
// ctnetlink messages as bytes: the kernel's reports of connections, and the requests to track one.
#include "agent/netlink/tracked.hpp"

#include <linux/netfilter/nf_conntrack_common.h>

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lb::agent {
namespace {

/// Bytes from hexadecimal digits; spaces are ignored.
std::vector<std::byte> bytes(std::string_view digits) {
  std::vector<std::byte> made;
  std::string pair;
  for (const char each : digits) {
    if (each == ' ') {
      continue;
    }
    pair += each;
    if (pair.size() == 2) {
      made.push_back(static_cast<std::byte>(std::stoi(pair, nullptr, 16)));
      pair.clear();
    }
  }
  return made;
}

/// Linux 6.18's report of a connection from 10.0.0.100:48964 to 10.96.0.80:80, which goes to 10.244.2.10:8080
/// from 10.0.0.10:48965.
constexpr std::string_view head = "02000000";
constexpr std::string_view original =
    "34000180 14000180 08000100 0a000064 08000200 0a600050"
    "1c000280 05000100 06000000 06000200 bf440000 06000300 00500000";
constexpr std::string_view reply =
    "34000280 14000180 08000100 0af4020a 08000200 0a00000a"
    "1c000280 05000100 06000000 06000200 1f900000 06000300 bf450000";
constexpr std::string_view status = "08000300 000001be";
constexpr std::string_view mark = "08000800 00004000";
constexpr std::string_view zone = "06001200 00070000";

std::string all() { return std::string(head) + std::string(original) + std::string(reply); }

k8s::Address address(const char* text) { return k8s::Address::parse(text).value(); }

Tracked translated() {
  return {.original = {.source = address("10.0.0.100"),
                       .destination = address("10.96.0.80"),
                       .source_port = 48964,
                       .destination_port = 80,
                       .protocol = LB_TCP},
          .reply = {.source = address("10.244.2.10"),
                    .destination = address("10.0.0.10"),
                    .source_port = 8080,
                    .destination_port = 48965,
                    .protocol = LB_TCP},
          .status = 0x1be,
          .mark = 0x4000};
}

}  // namespace

TEST_CASE("a connection that the kernel tracks is read") {
  const auto read = read_tracked(bytes(all() + std::string(status) + std::string(mark)));
  REQUIRE(read);
  CHECK(*read == translated());
  CHECK((read->status & IPS_DST_NAT) != 0);
  CHECK((read->status & IPS_SRC_NAT) != 0);
  CHECK(read->has_other_destination());
}

TEST_CASE("a connection of another zone or another protocol is not") {
  CHECK_FALSE(read_tracked(bytes(all() + std::string(zone))));
  auto icmp = bytes(all());
  icmp.at(4 + 4 + 20 + 8) = std::byte{1};
  CHECK_FALSE(read_tracked(icmp));
}

TEST_CASE("a connection's message that is truncated anywhere is rejected") {
  const auto whole = bytes(all());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    INFO(size);
    CHECK_FALSE(read_tracked(netlink::Bytes(whole).first(size)));
  }
}

TEST_CASE("a request to track a flow has both tuples, and translates both ends") {
  auto request = track_request(translated(), 600);
  const auto message = request.bytes();
  const auto body = message.subspan(sizeof(nlmsghdr));
  const auto asked = read_tracked(body);
  REQUIRE(asked);
  CHECK(asked->original == translated().original);
  CHECK(asked->reply == reversed(translated().original));
  CHECK(asked->status == (IPS_CONFIRMED | IPS_SEEN_REPLY | IPS_ASSURED));
  CHECK(asked->mark == 0x4000);
  const std::string text(reinterpret_cast<const char*>(body.data()), body.size());
  const auto has = [&](std::string_view digits) {
    const auto wanted = bytes(digits);
    return text.find(std::string(reinterpret_cast<const char*>(wanted.data()), wanted.size())) !=
           std::string::npos;
  };
  // CTA_NAT_DST and CTA_NAT_SRC: minimum and maximum address, minimum and maximum port
  CHECK(has("28000d80 08000100 0af4020a 08000200 0af4020a 14000380 06000100 1f900000 06000200 1f900000"));
  CHECK(has("28000680 08000100 0a00000a 08000200 0a00000a 14000380 06000100 bf450000 06000200 bf450000"));
  CHECK(has("08000700 00000258"));  // CTA_TIMEOUT
}

TEST_CASE("an end that stays as it is has no translation") {
  auto flow = translated();
  flow.reply.destination = flow.original.source;
  flow.reply.destination_port = flow.original.source_port;
  auto request = track_request(flow, 600);
  const auto attributes = netlink::after(request.bytes().subspan(sizeof(nlmsghdr)), 4);
  CHECK(netlink::attribute(attributes, 6).empty());
  CHECK_FALSE(netlink::attribute(attributes, 13).empty());
}

}  // namespace lb::agent
