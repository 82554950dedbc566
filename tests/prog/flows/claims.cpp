// SPDX-License-Identifier: Apache-2.0
// Source NAT under pressure: tens of thousands of flows to one backend from one node (REL-6, REL-7).
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <map>
#include <set>

#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/maps.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

constexpr std::uint32_t many = 30000;
constexpr std::uint32_t too_many = 36000;
constexpr std::uint32_t all_ports = 29999 - 1024 + 1 + 65535 - 61000 + 1;

Settings roomy() {
  Settings settings;
  settings.flows = 131072;
  settings.unassured = 131072;
  return settings;
}

/// Client number `number`: two clients share each port.
Tuple request_of(std::uint32_t number, std::uint8_t protocol, int family = 4) {
  auto client = address_of(family == 4 ? "100.64.0.0" : "2001:db8:aaaa::");
  client[14] = static_cast<std::uint8_t>(number % 2);
  client[15] = static_cast<std::uint8_t>(1 + number / 60000);
  return {family,
          protocol,
          {client, static_cast<std::uint16_t>(1 + number / 2)},
          {address_of(family == 4 ? "198.19.0.1" : "2001:db8:ffff::1"), 80}};
}

class Pressure {
 public:
  explicit Pressure(const Settings& settings) : world_(settings) {}

  World& world() { return world_; }

  /// Sends a flow's first packet; `onward` becomes the tuple that the backend sees.
  Verdict begin(const Tuple& request, Hook hook, Tuple& onward) {
    const auto verdict = world_.programs().run({.hook = hook, .device = world_.device("out0")},
                                               build(request, {.flags = syn}));
    onward = tuple_of(verdict.packet);
    return verdict;
  }

  /// Sends the rest of the handshake, or a reply; returns whether the flow is then assured.
  bool prove(const Tuple& request, const Tuple& onward) {
    auto& programs = world_.programs();
    const auto answer = programs.run({.hook = Hook::tc_in, .device = world_.device("out1")},
                                     build(onward.reversed(), {.flags = syn | ack, .sequence = 9}));
    if (request.protocol == 17) {
      return answer.counts[LB_OUTCOME_assured] == 1;
    }
    const auto third = programs.run({.hook = Hook::tc_in, .device = world_.device("out0")},
                                    build(request, {.flags = ack, .acknowledged = 10}));
    return third.counts[LB_OUTCOME_assured] == 1;
  }

 private:
  World world_;
};

bool in_ranges(std::uint16_t port) { return (port >= 1024 && port <= 29999) || port >= 61000; }

}  // namespace

namespace {

struct Form {
  int family;
  std::uint8_t protocol;
};

/// Each family and each protocol once; in the long form every pair.
std::vector<Form> forms() {
  if (std::getenv("SLUICE_LONG") != nullptr) {
    return {{4, 6}, {4, 17}, {4, 132}, {6, 6}, {6, 17}, {6, 132}};
  }
  return {{4, 17}, {6, 6}, {4, 132}};
}

}  // namespace

TEST_CASE("30,000 flows to one backend from one node: never two on one tuple (REL-6, REL-7)") {
  for (const auto [family, protocol] : forms()) {
    INFO("protocol " << int{protocol} << ", IPv" << family);
    Pressure pressure(roomy());
    pressure.world().change({"reserve", "1024", "2000", "29999", "61000", "65535"});
    std::set<std::uint16_t> ports;
    std::uint32_t left = 0;
    for (std::uint32_t number = 0; number < many; ++number) {
      const auto request = request_of(number, protocol, family);
      Tuple onward;
      const bool by_xdp =
          number % 2 == 0 && pressure.begin(request, Hook::xdp, onward).counts[LB_OUTCOME_new_xdp] == 1;
      left += number % 2 == 0 && !by_xdp ? 1 : 0;
      // tc accepts every flow that XDP leaves to it, and finds every flow that XDP has opened.
      const auto verdict = pressure.begin(request, Hook::tc_in, onward);
      INFO("flow " << number << ": " << counts_text(verdict.counts));
      REQUIRE(verdict.counts[LB_OUTCOME_new_remote] + verdict.counts[LB_OUTCOME_flow_redirect] == 1);
      REQUIRE(verdict.counts[LB_OUTCOME_port_displaced] == 0);
      REQUIRE(in_ranges(onward.source.port));
      REQUIRE(ports.insert(onward.source.port).second);
      REQUIRE(pressure.prove(request, onward));
    }
    CHECK(left < 100);
    for (const auto reserved : std::to_array<std::uint16_t>({1024, 2000, 29999, 61000, 65535})) {
      CHECK_FALSE(ports.contains(reserved));
    }
  }
}

namespace {

/// Open flows: the client's tuple, and the one that the backend sees.
using Opened = std::map<Tuple, Tuple>;

/// Opens too many flows; all that get a port are assured, so that none of them may be evicted.
Opened crowd(Pressure& pressure, Form form) {
  Opened opened;
  std::set<std::uint16_t> ports;
  std::uint32_t refused = 0;
  for (std::uint32_t number = 0; number < too_many; ++number) {
    const auto request = request_of(number, form.protocol, form.family);
    Tuple onward;
    const auto verdict = pressure.begin(request, Hook::tc_in, onward);
    INFO("flow " << number << ": " << counts_text(verdict.counts));
    REQUIRE(verdict.counts[LB_OUTCOME_port_displaced] == 0);
    if (verdict.counts[LB_OUTCOME_ports_exhausted] == 1) {
      ++refused;
      REQUIRE(onward == request);  // the dropped packet is unchanged
      continue;
    }
    REQUIRE(verdict.counts[LB_OUTCOME_new_remote] == 1);
    REQUIRE(ports.insert(onward.source.port).second);
    REQUIRE(pressure.prove(request, onward));
    opened.emplace(request, onward);
  }
  CHECK(opened.size() + refused == too_many);
  CHECK(opened.size() <= all_ports);
  CHECK(opened.size() > all_ports - all_ports / 20);
  return opened;
}

bool both_ways(World& world, const Tuple& request, const Tuple& onward) {
  auto& programs = world.programs();
  const auto there = programs.run({.hook = Hook::tc_in, .device = world.device("out0")}, build(request, {}));
  const auto back =
      programs.run({.hook = Hook::tc_in, .device = world.device("out1")}, build(onward.reversed(), {}));
  return tuple_of(there.packet) == onward && tuple_of(back.packet) == request.reversed();
}

}  // namespace

TEST_CASE(
    "REL-6 36,000 flows to one backend: who comes too late is named, nobody else is hurt, and it heals") {
  for (const auto form : forms()) {
    INFO("protocol " << int{form.protocol} << ", IPv" << form.family);
    Pressure pressure(roomy());
    const auto opened = crowd(pressure, form);
    for (const auto& [request, onward] : opened) {
      REQUIRE(both_ways(pressure.world(), request, onward));
    }
    pressure.world().change({"forget", "established"});
    pressure.world().change({"age", "80"});
    Tuple onward;
    std::uint32_t late = 0;
    for (std::uint32_t number = 0; number < 1000; ++number) {
      const auto request = request_of(too_many + number, form.protocol, form.family);
      late += pressure.begin(request, Hook::tc_in, onward).counts[LB_OUTCOME_new_remote] == 1 ? 1 : 0;
    }
    CHECK(late == 1000);
  }
}

TEST_CASE("ports that are used up come back when flows end (REL-6)") {
  auto settings = roomy();
  settings.config.first_port = 2000;
  settings.config.last_port = 2099;
  settings.config.high_first_port = settings.config.high_last_port = 0;
  Pressure pressure(settings);
  for (std::uint32_t number = 0; number < 100; ++number) {
    Tuple onward;
    const auto request = request_of(number, 6);
    REQUIRE(pressure.begin(request, Hook::tc_in, onward).counts[LB_OUTCOME_new_remote] == 1);
    REQUIRE(pressure.prove(request, onward));
  }
  Tuple onward;
  CHECK(pressure.begin(request_of(100, 6), Hook::tc_in, onward).counts[LB_OUTCOME_ports_exhausted] == 1);
  constexpr std::uint16_t port = 2042;  // both entries of a flow are erased, as by expiry
  auto& programs = pressure.world().programs();
  std::vector<lb_flow4_key> entries;
  must(programs.flows4.for_each([&](const lb_flow4_key& key, const lb_flow4& flow) {
    if (key.destination_port == port || flow.source.port == port) {
      entries.push_back(key);
    }
  }));
  REQUIRE(entries.size() == 2);
  for (const auto& key : entries) {
    must(programs.flows4.erase(key));
  }
  pressure.world().change({"age", "80"});
  CHECK(pressure.begin(request_of(100, 6), Hook::tc_in, onward).counts[LB_OUTCOME_new_remote] == 1);
  CHECK(onward.source.port == port);
}

TEST_CASE("an unanswered flood leaves ports for later flows (REL-4)") {
  auto settings = roomy();
  settings.config.first_port = 2000;
  settings.config.last_port = 2999;
  settings.config.high_first_port = settings.config.high_last_port = 0;
  Pressure pressure(settings);
  Tuple onward;
  const auto mine = request_of(100000, 6);
  REQUIRE(pressure.begin(mine, Hook::tc_in, onward).counts[LB_OUTCOME_new_remote] == 1);
  REQUIRE(pressure.prove(mine, onward));
  std::uint64_t displaced = 0;
  for (std::uint32_t number = 0; number < 5000; ++number) {
    Tuple ignored;
    const auto verdict = pressure.begin(request_of(number, 6), Hook::tc_in, ignored);
    REQUIRE(verdict.counts[LB_OUTCOME_new_remote] == 1);
    REQUIRE(ignored.source.port != onward.source.port);
    displaced += verdict.counts[LB_OUTCOME_port_displaced];
  }
  CHECK(displaced > 3000);
  const auto late = request_of(100001, 6);
  REQUIRE(pressure.begin(late, Hook::tc_in, onward).counts[LB_OUTCOME_new_remote] == 1);
  CHECK(pressure.prove(late, onward));
}

}  // namespace lb::test
