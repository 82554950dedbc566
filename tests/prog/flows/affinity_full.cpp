// SPDX-License-Identifier: Apache-2.0
// A full table of session affinity: a client that reconnects again and again evicts no other entries.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/maps.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

/// Adds entries for clients of a service that gets no packets.
void fill(Programs& programs) {
  for (std::uint32_t number = 0; number < LB_MAX_AFFINITY; ++number) {
    lb_affinity_key key{};
    key.service = 60000;
    std::memcpy(static_cast<void*>(key.client), &number, sizeof(number));
    must(programs.affinity.put(key, {.backend = 1, .used = 0, .check = 0, .pad = 0}, maps::Put::any));
  }
}

bool connects(World& world, std::uint16_t port) {
  const Tuple request{4, 6, {address_of("192.0.2.10"), port}, {address_of("198.19.0.1"), 80}};
  const auto verdict = world.programs().run({.hook = Hook::tc_in, .device = world.device("out0")},
                                            build(request, {.flags = syn}));
  return verdict.counts[LB_OUTCOME_new_remote] == 1;
}

}  // namespace

TEST_CASE("REL-61 one client reconnecting evicts no other client from a full table") {
  World world{Settings()};
  world.change({"affinity", "remote_tcp4", "10800"});
  fill(world.programs());
  REQUIRE(connects(world, 1));  // its own entry may evict some others
  const auto before = count(world.programs().affinity);
  CHECK(before > LB_MAX_AFFINITY / 2);
  for (std::uint16_t port = 2; port < 3000; ++port) {
    REQUIRE(connects(world, port));
  }
  CHECK(count(world.programs().affinity) == before);
}

}  // namespace lb::test
