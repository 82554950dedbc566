// SPDX-License-Identifier: Apache-2.0
// lb_frontends alone: entries, frontends that move between services, and the addresses and node ports that
// follow from them.
#include "agent/tables/frontend_table.hpp"

#include <catch2/catch_test_macros.hpp>

#include "tests/unit/tables/fakes.hpp"

using namespace lb::tables_test;

namespace {

struct Fixture {
  explicit Fixture(std::uint32_t limit = 4)
      : kernel({.frontends = limit}),
        addresses(kernel.addresses),
        ports(kernel.reserved),
        table(kernel.frontends, addresses, ports) {
    ports.set_kernel({});
  }

  [[nodiscard]] bool keeps(std::uint16_t port) { return is_reserved(kernel.store(), port); }
  [[nodiscard]] std::size_t addresses_written() {
    REQUIRE_FALSE(addresses.write_touched());
    return kernel.addresses.entries.size();
  }

  FakeKernel kernel;
  lb::agent::AddressTable addresses;
  lb::agent::ReservedPorts ports;
  lb::agent::FrontendTable table;
};

lb_frontend_key at(const lb::k8s::Address& address, std::uint16_t port) {
  lb_frontend_key key{};
  std::ranges::copy(address.bytes, std::begin(key.address));
  key.port = port;
  key.protocol = LB_TCP;
  return key;
}

lb_frontend_key node_port(std::uint16_t port) {
  return at({{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}}, port);
}

lb_frontend points_to(std::uint32_t service, lb_kind kind = LB_CLUSTER_IP) {
  lb_frontend value{};
  value.service = service;
  value.kind = kind;
  return value;
}

}  // namespace

TEST_CASE("an address counts as a service's as long as a frontend is there, and a node port is kept") {
  Fixture fixture;
  const auto web = at(address(0, 1), 80);
  CHECK_FALSE(fixture.table.put(web, points_to(1)));
  CHECK_FALSE(fixture.table.put(node_port(30080), points_to(1, LB_NODE_PORT)));
  CHECK(fixture.addresses_written() == 1);
  CHECK(fixture.keeps(30080));
  CHECK_FALSE(fixture.table.remove(web, 1));
  CHECK_FALSE(fixture.table.remove(node_port(30080), 1));
  CHECK(fixture.addresses_written() == 0);
  CHECK_FALSE(fixture.keeps(30080));
}

TEST_CASE("a frontend that passed to another service is neither removed by the old one nor counted twice") {
  Fixture fixture;
  const auto web = at(address(0, 1), 80);
  CHECK_FALSE(fixture.table.put(web, points_to(1)));
  CHECK_FALSE(fixture.table.put(web, points_to(2, LB_EXTERNAL_IP)));
  CHECK_FALSE(fixture.table.remove(web, 1));
  CHECK(fixture.table.contains(web));
  CHECK_FALSE(fixture.table.remove(web, 2));
  CHECK(fixture.addresses_written() == 0);
}

TEST_CASE("what is there already is not written, and a refusal counts nothing") {
  Fixture fixture(1);
  CHECK_FALSE(fixture.table.put(at(address(0, 1), 80), points_to(1)));
  const int writes = fixture.kernel.faults.writes;
  CHECK_FALSE(fixture.table.put(at(address(0, 1), 80), points_to(1)));
  CHECK(fixture.kernel.faults.writes == writes);
  CHECK(fixture.table.put(node_port(30080), points_to(1, LB_NODE_PORT)));
  CHECK_FALSE(fixture.keeps(30080));
  CHECK_FALSE(fixture.table.contains(node_port(30080)));
  CHECK(fixture.addresses_written() == 1);
}

TEST_CASE("a frontend that was taken is not taken back, and comes back when the other service removes it") {
  Fixture fixture;
  const auto web = at(address(0, 1), 80);
  const auto owner = [&] { return fixture.table.entries().at(web).service; };
  for (const std::uint32_t service : {1U, 2U, 3U, 1U, 2U}) {
    CHECK_FALSE(fixture.table.put(web, points_to(service)));
  }
  CHECK(owner() == 3);
  SECTION("to the last that had it") {
    CHECK_FALSE(fixture.table.remove(web, 3));
    CHECK(owner() == 2);
    CHECK_FALSE(fixture.table.remove(web, 2));
    CHECK(owner() == 1);
  }
  SECTION("but for those that removed it") {
    CHECK_FALSE(fixture.table.remove(web, 2));
    CHECK_FALSE(fixture.table.remove(web, 3));
    CHECK(owner() == 1);
  }
  SECTION("as it was put last") {
    CHECK_FALSE(fixture.table.put(web, points_to(2, LB_EXTERNAL_IP)));
    CHECK_FALSE(fixture.table.remove(web, 3));
    CHECK(fixture.table.entries().at(web).kind == LB_EXTERNAL_IP);
    CHECK_FALSE(fixture.table.remove(web, 2));
  }
  CHECK(fixture.addresses_written() == 1);
  CHECK_FALSE(fixture.table.remove(web, 1));
  CHECK_FALSE(fixture.table.contains(web));
  CHECK(fixture.addresses_written() == 0);
  CHECK_FALSE(fixture.table.put(web, points_to(1)));
  CHECK_FALSE(fixture.table.put(web, points_to(2)));
  CHECK(owner() == 2);
}

TEST_CASE("a frontend that cannot be given back is tried again") {
  Fixture fixture(1);
  const auto web = at(address(0, 1), 80);
  CHECK_FALSE(fixture.table.put(web, points_to(1)));
  CHECK_FALSE(fixture.table.put(web, points_to(2)));
  fixture.kernel.faults.fail_at = fixture.kernel.faults.writes;
  CHECK(fixture.table.remove(web, 2));
  CHECK_FALSE(fixture.table.remove(web, 2));
  CHECK(fixture.table.entries().at(web).service == 1);
}

TEST_CASE("what an earlier agent left is counted as if it were written now") {
  Fixture fixture;
  fixture.kernel.frontends.insert(at(address(0, 1), 80), points_to(1));
  fixture.kernel.frontends.insert(node_port(30080), points_to(1, LB_NODE_PORT));
  CHECK_FALSE(fixture.table.load());
  CHECK(fixture.addresses_written() == 1);
  CHECK_FALSE(fixture.table.remove(node_port(30080), 1));
  CHECK_FALSE(fixture.keeps(30080));
}
