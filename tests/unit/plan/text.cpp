// The canonical lines of map entries (maps/text.hpp), as far as goldens do not show them.
#include "maps/text.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "build.hpp"

namespace lb::test {
namespace {

TEST_CASE("addresses of both widths") {
  CHECK(maps::address_text(address("10.1.0.5").bytes) == "10.1.0.5");
  CHECK(maps::address_text(address("fd00::1").bytes) == "fd00::1");
  CHECK(maps::socket_text(address("0.0.0.0").bytes, 80) == "0.0.0.0:80");
  CHECK(maps::socket_text(address("::").bytes, 80) == "[::]:80");
  constexpr std::array<std::uint8_t, 4> narrow{192, 0, 2, 1};
  CHECK(maps::socket_text(narrow, 53) == "192.0.2.1:53");
}

TEST_CASE("text of a full array ends with it") {
  constexpr std::array<char, 4> full{'a', 'b', 'c', 'd'};
  CHECK(maps::stored_text(full) == "abcd");
  constexpr std::array<char, 4> half{'a', 'b', '\0', 'd'};
  CHECK(maps::stored_text(half) == "ab");
}

TEST_CASE("a flow is its packet before and after") {
  lb_flow4_key key{{192, 0, 2, 7}, {10, 96, 0, 10}, 40000, 80, LB_TCP, {}};
  lb_flow4 flow{};
  flow.source = {{192, 0, 2, 1}, 50000, 0};
  flow.destination = {{10, 1, 0, 5}, 8080, 0};
  flow.track.backend = 7;
  flow.track.device = 2;
  flow.track.side = LB_UPLINK_INGRESS;
  flow.track.path = LB_PATH_REDIRECT;
  flow.track.state = LB_OPEN;
  flow.track.source_nat = LB_YES;
  CHECK(maps::flow_line(key, flow) ==
        "flow TCP 192.0.2.7:40000>10.96.0.10:80 => 192.0.2.1:50000>10.1.0.5:8080 forward uplink-ingress "
        "redirect open "
        "backend=7 device=2 source-nat");
}

TEST_CASE("an IPv6 flow") {
  lb_flow6_key key{};
  lb_flow6 flow{};
  std::ranges::copy(address("fd00::7").bytes, std::begin(key.source));
  std::ranges::copy(address("fd96::10").bytes, std::begin(key.destination));
  std::ranges::copy(address("fd00::7").bytes, std::begin(flow.source));
  std::ranges::copy(address("fd01::5").bytes, std::begin(flow.destination));
  key.source_port = flow.source_port = 40000;
  key.destination_port = 53;
  flow.destination_port = 5353;
  key.protocol = LB_UDP;
  flow.track.direction = LB_REPLY;
  flow.track.side = LB_POD_EGRESS;
  flow.track.state = LB_CLOSING;
  CHECK(maps::flow_line(key, flow) ==
        "flow UDP [fd00::7]:40000>[fd96::10]:53 => [fd00::7]:40000>[fd01::5]:5353 reply pod-egress stack "
        "closing "
        "backend=0 device=0");
}

TEST_CASE("an address of the node") {
  lb_address_key key{};
  std::ranges::copy(address("192.0.2.1").bytes, std::begin(key.address));
  lb_address value{};
  value.kind = LB_NODE_PORT_ADDRESS;
  CHECK(maps::address_line(key, value) == "address 192.0.2.1 node-port-address");
}

TEST_CASE("slots are the weights without their common factor (choice I)") {
  using Weights = std::vector<std::uint8_t>;
  CHECK(test::slot_count(Weights{}) == 0);
  CHECK(test::slot_count(Weights{1, 1, 1}) == 3);
  CHECK(test::slot_count(Weights{100, 100}) == 2);
  CHECK(test::slot_count(Weights{60, 40}) == 5);
  CHECK(test::slot_count(Weights{7, 3}) == 10);
}

}  // namespace
}  // namespace lb::test
