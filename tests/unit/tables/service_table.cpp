// SPDX-License-Identifier: Apache-2.0
// Service ports, their numbers and names: adding, removing, and the state after an error.
#include "agent/tables/service_table.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/unit/tables/fakes.hpp"

using lb::agent::ServicePortKey;
using namespace lb::tables_test;

namespace {

struct Fixture {
  explicit Fixture(std::uint32_t services = 8)
      : kernel({.services = services}),
        reclaimer(kernel.store(), grace, sweeper, [] {}),
        table(kernel.names, reclaimer) {}

  [[nodiscard]] lb_name name(std::uint32_t number) { return kernel.names.get(number).value(); }

  FakeKernel kernel;
  ManualGrace grace;
  ManualSweeper sweeper;
  lb::agent::IdReclaimer reclaimer;
  lb::agent::ServiceTable table;
};

ServicePortKey key(const std::string& name) { return {.name = name, .protocol = LB_UDP, .family = LB_IPV6}; }

}  // namespace

TEST_CASE("a service port that comes has a number, a name and an empty state") {
  Fixture fixture;
  const auto created = fixture.table.create(key("default/web:http"));
  REQUIRE(created);
  REQUIRE(*created != nullptr);
  CHECK(lb::maps::stored_text(fixture.name((*created)->number).service) == "default/web:http");
  CHECK(fixture.name((*created)->number).protocol == LB_UDP);
  CHECK(fixture.name((*created)->number).family == LB_IPV6);
  CHECK(fixture.name((*created)->number).retired == LB_NO);
  CHECK(fixture.table.contains(key("default/web:http")));
  CHECK(fixture.table.ports_of("default/web").size() == 1);
  CHECK(fixture.table.ports_of("default/we").empty());
  CHECK(fixture.table.is_usable((*created)->number));
}

TEST_CASE("a name without room in its entry is refused, and takes no number") {
  Fixture fixture;
  const auto available = fixture.reclaimer.service_pool().available();
  const auto created = fixture.table.create(key("default/" + std::string(sizeof(lb_name::service), 'x')));
  REQUIRE_FALSE(created);
  CHECK(created.error() == boost::system::errc::filename_too_long);
  fixture.kernel.faults.fail_at = 0;
  CHECK(fixture.table.create(key("default/web")).error() == boost::system::errc::not_enough_memory);
  CHECK(fixture.reclaimer.service_pool().available() == available);
  CHECK(fixture.table.all().empty());
}

TEST_CASE("without a free number nothing is created, and that is no error") {
  Fixture fixture(2);  // number 0 is reserved
  REQUIRE(fixture.table.create(key("default/web")));
  const auto second = fixture.table.create(key("default/db"));
  REQUIRE(second);
  CHECK(*second == nullptr);
}

TEST_CASE("a service port that goes leaves its name, marked, until its number is free") {
  Fixture fixture;
  auto* const http = fixture.table.create(key("default/web:http")).value();
  auto* const https = fixture.table.create(key("default/web:https")).value();
  const auto number = http->number;
  fixture.kernel.faults.fail_at = fixture.kernel.faults.writes;
  CHECK(fixture.table.retire(*http) == boost::system::errc::not_enough_memory);
  CHECK(fixture.reclaimer.retired_services() == 0);
  CHECK_FALSE(fixture.table.retire(*http));
  CHECK(fixture.reclaimer.retired_services() == 1);
  CHECK(fixture.name(number).retired == LB_YES);
  fixture.table.forget("default/web", {http});
  CHECK_FALSE(fixture.table.contains(key("default/web:http")));
  CHECK(fixture.table.contains(key("default/web:https")));
  fixture.table.forget("default/web", {https});
  CHECK(fixture.table.all().empty());
}

TEST_CASE("what was found without a name belongs to no service") {
  Fixture fixture;
  fixture.table.add({}, 3);
  fixture.table.add({}, 4);
  CHECK(fixture.table.ports_of("").size() == 2);
  CHECK_FALSE(fixture.table.is_usable(0));
  CHECK_FALSE(fixture.table.is_usable(LB_POD_RANGES));
}
