// REL-3: both flow tables are full. What is established stays, what is new works, and of the young table,
// which evicts by an approximate order, a band of entries survives.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <vector>

#include "tests/prog/packets_build.hpp"
#include "tests/prog/packets_maps.hpp"
#include "tests/prog/packets_world.hpp"

namespace lb::test {
namespace {

constexpr std::uint32_t limit = 1000;
constexpr std::uint32_t all = 5000;
constexpr std::uint32_t established = limit / 2;  // of each flow two entries

/// Where the backend is: replies come by another device, or past us on their way out.
enum class Place : std::uint8_t { elsewhere, here };

struct Form {
  int family;
  Place place;
};

constexpr std::array forms = {Form{4, Place::elsewhere}, Form{6, Place::elsewhere}, Form{4, Place::here},
                              Form{6, Place::here}};

Tuple request_of(Form form, std::uint32_t number) {
  const auto family = form.family;
  auto client = address_of(family == 4 ? "100.64.0.0" : "2001:db8:aaaa::");
  client[14] = static_cast<std::uint8_t>(number / 250);
  client[15] = static_cast<std::uint8_t>(1 + number % 250);
  const std::uint16_t port = form.place == Place::elsewhere ? 80 : 81;
  return {family, 17, {client, 5300}, {address_of(family == 4 ? "198.19.0.1" : "2001:db8:ffff::1"), port}};
}

struct Talk {
  Tuple request;
  Tuple onward;
};

Verdict ask(World& world, const Tuple& request) {
  return world.programs().run({.hook = Hook::tc_in, .device = world.device("out0")}, build(request, {}));
}

Verdict answer(World& world, const Talk& talk) {
  const bool here = talk.request.destination.port == 81;
  return world.programs().run(
      {.hook = here ? Hook::tc_out : Hook::tc_in, .device = world.device(here ? "out0" : "out1")},
      build(talk.onward.reversed(), {}));
}

/// A question and its answer.
Talk open(World& world, const Tuple& request) {
  const auto first = ask(world, request);
  REQUIRE(first.counts[LB_OUTCOME_new_remote] + first.counts[LB_OUTCOME_new_local] == 1);
  Talk talk{request, tuple_of(first.packet)};
  REQUIRE(tuple_of(answer(world, talk).packet) == request.reversed());
  return talk;
}

bool goes_on(World& world, const Talk& talk) {
  return tuple_of(ask(world, talk.request).packet) == talk.onward &&
         tuple_of(answer(world, talk).packet) == talk.request.reversed();
}

Settings small() {
  Settings settings;
  settings.flows = settings.young = limit;
  return settings;
}

}  // namespace

TEST_CASE("REL-3 5,000 flows in tables of 1,000 entries: the established stay, and each new one works") {
  for (const auto form : forms) {
    INFO("IPv" << form.family << (form.place == Place::here ? ", here" : ", elsewhere"));
    World world(small());
    std::vector<Talk> first;
    for (std::uint32_t number = 0; number < established; ++number)
      first.push_back(open(world, request_of(form, number)));
    REQUIRE(world.entries().first == limit);
    for (auto number = established; number < all; ++number) open(world, request_of(form, number));
    for (const auto& talk : first) REQUIRE(goes_on(world, talk));
    CHECK(world.entries().first == limit);
  }
}

// Measured: 976 of 1,000. An exact LRU would keep 1,000, a table that is emptied when it is full next to
// none.
TEST_CASE("REL-3 of 1,000 young entries a band survives 1,000 inserts") {
  for (const auto form : forms) {
    INFO("IPv" << form.family << (form.place == Place::here ? ", here" : ", elsewhere"));
    World world(small());
    std::vector<Talk> talks;
    for (std::uint32_t number = 0; number < limit; ++number) {
      const auto request = request_of(form, number);
      talks.push_back({request, tuple_of(ask(world, request).packet)});
    }
    const auto left = world.entries().second;
    CHECK(left >= limit * 9 / 10);
    CHECK(left <= limit);
    std::uint32_t kept = 0;  // of the last ones, whose entries nothing had a reason to evict
    for (auto at = talks.size() - limit / 4; at < talks.size(); ++at)
      kept += goes_on(world, talks[at]) ? 1 : 0;
    CHECK(kept >= limit / 4 * 9 / 10);
  }
}

}  // namespace lb::test
