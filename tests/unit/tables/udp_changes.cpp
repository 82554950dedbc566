// SPDX-License-Identifier: Apache-2.0
// When the tables say that connected UDP sockets may have lost their backend, or may have one now.
#include <catch2/catch_test_macros.hpp>
#include <utility>

#include "tests/unit/tables/fakes.hpp"

using lb::agent::Batch;
using namespace lb::tables_test;

namespace {

Plan port(const std::string& name, lb_protocol protocol, std::uint8_t frontend,
          const std::vector<std::uint8_t>& lasts) {
  auto plan = service(name, frontend, lasts);
  plan->key.protocol = protocol;
  return plan;
}

Plan udp(std::uint8_t frontend, const std::vector<std::uint8_t>& lasts) {
  return port("web:dns", LB_UDP, frontend, lasts);
}

Plan tcp(std::uint8_t frontend, const std::vector<std::uint8_t>& lasts) {
  return port("web:http", LB_TCP, frontend, lasts);
}

/// An agent, and how often its tables said so.
struct Watched {
  explicit Watched(Limits limits = {}) : kernel(limits) {
    agent.tables.on_udp_change([this] { ++changes; });
  }
  /// Writes a service, and returns how often the tables said so.
  int write(std::vector<Plan> ports, Batch batch = Batch::changes) {
    agent.tables.apply(batch, {change("web", std::move(ports))});
    return take();
  }
  int take() { return std::exchange(changes, 0); }

  FakeKernel kernel;
  Agent agent{kernel};
  int changes = 0;
};

}  // namespace

TEST_CASE("SEM-46 sockets are checked when a service keeps only its TCP port") {
  Watched watched;
  watched.write({udp(1, {1, 2}), tcp(1, {1, 2})}, Batch::whole);
  CHECK(watched.write({tcp(1, {1, 2})}) == 1);
  CHECK(watched.write({tcp(1, {1})}) == 0);
}

TEST_CASE("SEM-46 sockets are checked when backends of UDP change, and not when only others do") {
  Watched watched;
  CHECK(watched.write({}, Batch::whole) == 1);  // the previous agent may not have checked them
  const auto empty = udp(1, {});
  CHECK(watched.write({empty, tcp(1, {1, 2})}) == 1);
  CHECK(watched.write({empty, tcp(1, {1})}) == 0);
  CHECK(watched.write({udp(1, {1, 2}), tcp(1, {1})}) == 1);
  const auto unready = udp(1, {1, 2});
  edit_backends(unready, [](auto& backends) { backends[0].serving = false; });
  CHECK(watched.write({unready, tcp(1, {1})}) == 1);
  CHECK(watched.write({unready, tcp(1, {1})}) == 0);
  CHECK(watched.write({}) == 1);
}

TEST_CASE("SEM-46 sockets are checked when backends of UDP end by a later attempt") {
  Watched watched({.slots = 6});
  watched.write({udp(1, {1, 2, 3})}, Batch::whole);
  auto& faults = watched.kernel.faults;
  SECTION("after a grace period") {
    watched.write({udp(1, {1, 4, 3})});
    CHECK(watched.write({udp(1, {5, 4, 3})}) == 0);
    watched.agent.grace.pass();
    CHECK(watched.take() == 1);
  }
  SECTION("at once, though a source range cannot be written") {
    const auto restricted = udp(1, {1, 2});
    restricted->policy.source_ranges = LB_YES;
    restricted->source_ranges = {{.address = address(7, 0), .length = 120}};
    faults.fail_at = faults.writes;
    CHECK(watched.write({restricted}) == 1);
    watched.agent.tables.retry();
    CHECK(watched.take() == 0);
  }
  SECTION("when its number cannot be retired") {
    faults.fail_at = faults.writes + 1;
    CHECK(watched.write({}) == 1);
    watched.agent.tables.retry();
    CHECK(watched.take() == 0);
  }
  watched.agent.settle();
  CHECK(watched.agent.tables.complete());
  CHECK(watched.take() == 0);
}

TEST_CASE("SEM-46 sockets are checked when a frontend of UDP is written by a retry") {
  Watched watched;
  watched.write({}, Batch::whole);
  watched.kernel.faults.fail_at = watched.kernel.faults.writes + 1;
  watched.write({udp(1, {1})});
  CHECK(watched.kernel.frontends.entries.empty());
  watched.agent.tables.retry();
  CHECK(watched.kernel.frontends.entries.size() == 1);
  CHECK(watched.take() == 1);
  watched.agent.tables.retry();
  CHECK(watched.take() == 0);
}

TEST_CASE("SEM-46 sockets are checked when a backend of UDP is repaired") {
  Watched watched;
  watched.write({udp(1, {1, 2})}, Batch::whole);
  watched.agent.settle();
  auto damaged = watched.kernel.backends.load(1);
  damaged.port = 4711;
  watched.kernel.backends.store(1, damaged);
  CHECK(watched.agent.tables.repair().size() == 1);
  CHECK(watched.take() == 1);
  CHECK(watched.agent.tables.repair().empty());
  CHECK(watched.take() == 0);
}
