// SPDX-License-Identifier: Apache-2.0
// Source ports of new flows are spread over the whole range, whichever backend is chosen.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <string>
#include <vector>

#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t flows = 2000;
constexpr std::uint16_t first_port = 10'000;
constexpr std::uint16_t last_port = 29'999;

Settings one_range() {
  Settings settings;
  settings.config.first_port = first_port;
  settings.config.last_port = last_port;
  settings.config.high_first_port = settings.config.high_last_port = 0;
  return settings;
}

}  // namespace

// If the upper half of one hash chose both backend and port, each of two backends would start at only half of
// the ports.
TEST_CASE("each backend's flows begin anywhere among the source ports, and seldom meet") {
  World world(one_range());
  world.change({"cluster", "pair_tcp4", "pair_a_tcp4", "pair_b_tcp4"});
  std::map<Address, std::vector<std::uint16_t>> ports;
  std::uint64_t collisions = 0;
  for (std::uint16_t flow = 0; flow < flows; ++flow) {
    const Tuple request{4,
                        6,
                        {address_of("192.0.2.10"), static_cast<std::uint16_t>(20'000 + flow)},
                        {address_of("198.19.0.1"), 83}};
    const auto verdict = world.programs().run({.hook = Hook::tc_in, .device = world.device("out0")},
                                              build(request, {.flags = syn}));
    REQUIRE(verdict.counts[LB_OUTCOME_new_remote] == 1);
    collisions += verdict.counts[LB_OUTCOME_port_collision];
    const auto sent = tuple_of(verdict.packet);
    ports[sent.destination.address].push_back(sent.source.port);
  }
  REQUIRE(ports.size() == 2);
  constexpr int quarter = (last_port - first_port + 1) / 4;
  for (const auto& [backend, chosen] : ports) {
    for (int at = 0; at < 4; ++at) {
      const int from = first_port + (at * quarter);
      const auto inside =
          std::ranges::count_if(chosen, [from](int port) { return port >= from && port < from + quarter; });
      CHECK(inside > static_cast<std::ptrdiff_t>(chosen.size()) / 8);  // a quarter is expected
    }
  }
  CHECK(collisions < 200);  // 1,000 flows to each backend on 20,000 ports: 50 are expected
}

}  // namespace lb::test
