// SPDX-License-Identifier: Apache-2.0
// REL-39: an hour without an agent. The programs go on with the maps as they are: flows stay and end as their
// entries say, a full flow table evicts no flow and refuses none, and the returning agent ends the expired
// flows.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/programs/features.hpp"
#include "agent/tables/expiry.hpp"
#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

constexpr std::uint32_t limit = 1000;
constexpr std::uint32_t unassured = 4096;
constexpr std::uint32_t before = limit / 2;     // flows of two entries each, which fill the table
constexpr std::uint32_t speaking = 100;         // those of them that send packets
constexpr std::uint32_t newcomers = unassured;  // new flows, with more entries than the unassured table holds

struct Flow {
  Tuple request;
  Tuple onward;
};

class HourAlone {
 public:
  explicit HourAlone(int family) : family_(family), world_(small()) {}

  Flow open(std::uint32_t number) {
    auto client = address_of(family_ == 4 ? "100.64.0.0" : "2001:db8:aaaa::");
    client[14] = static_cast<std::uint8_t>(number / 250);
    client[15] = static_cast<std::uint8_t>(1 + number % 250);
    const Tuple request{family_, 17, {client, 5300}, {service(), 80}};
    Flow flow{request, tuple_of(run("out0", request).packet)};
    REQUIRE(flow.onward.destination != request.destination);
    REQUIRE(answered(flow));
    return flow;
  }
  bool goes_on(const Flow& flow) {
    return tuple_of(run("out0", flow.request).packet) == flow.onward && answered(flow);
  }
  void pass_an_hour() { world_.change({"age", "3600"}); }
  /// Expires flows, as the returning agent does.
  void expire() {
    const auto hertz = agent::measure_hertz();
    agent::FlowExpiry expiry(world_.programs().flows4, world_.programs().flows6, {},
                             {.now = [hertz] { return agent::flow_clock_now(hertz); }});
    while (expiry.rounds() < 1) {
      if (const auto pause = expiry.step(); !pause) {
        throw std::runtime_error(pause.error().message());
      }
    }
  }
  [[nodiscard]] std::pair<std::size_t, std::size_t> entries() const { return world_.entries(); }

 private:
  static Settings small() {
    Settings settings;
    settings.flows = limit;
    settings.unassured = unassured;
    return settings;
  }
  [[nodiscard]] Address service() const {
    return address_of(family_ == 4 ? "198.19.0.1" : "2001:db8:ffff::1");
  }
  Verdict run(const char* device, const Tuple& tuple) {
    return world_.programs().run({.hook = Hook::tc_in, .device = world_.device(device)}, build(tuple, {}));
  }
  bool answered(const Flow& flow) {
    return tuple_of(run("out1", flow.onward.reversed()).packet) == flow.request.reversed();
  }

  int family_;
  World world_;
};

}  // namespace

TEST_CASE(
    "REL-39 an hour without an agent: flows go on and come, age out of the unassured table, and end when it "
    "is "
    "back") {
  for (const int family : {4, 6}) {
    INFO("IPv" << family);
    HourAlone alone(family);
    std::vector<Flow> old;
    for (std::uint32_t number = 0; number < before; ++number) {
      old.push_back(alone.open(number));
    }
    REQUIRE(alone.entries().first == limit);
    alone.pass_an_hour();
    for (std::uint32_t at = 0; at < speaking; ++at) {
      REQUIRE(alone.goes_on(old[at]));
    }
    // No agent ends the silent flows, so the table stays full; new flows use the unassured table.
    for (auto number = before; number < before + newcomers; ++number) {
      static_cast<void>(alone.open(number));
    }
    CHECK(alone.entries().first == limit);
    CHECK(alone.entries().second <= unassured);
    for (std::uint32_t at = 0; at < speaking; ++at) {
      REQUIRE(alone.goes_on(old[at]));
    }
    alone.expire();
    CHECK(alone.entries().first == std::size_t{2} * speaking);
    for (std::uint32_t at = 0; at < speaking; ++at) {
      REQUIRE(alone.goes_on(old[at]));
    }
  }
}

}  // namespace lb::test
