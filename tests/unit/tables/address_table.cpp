// SPDX-License-Identifier: Apache-2.0
// lb_addresses alone: the kind of each address, which entries a write changes, and what stays pending after
// an error.
#include "agent/tables/address_table.hpp"

#include <catch2/catch_test_macros.hpp>
#include <map>

#include "tests/unit/tables/fakes.hpp"

using lb::agent::AddressTable;
using namespace lb::tables_test;

namespace {

/// A table of this size, and its writer.
struct Fixture {
  explicit Fixture(std::uint32_t limit = 8) : entries(faults, limit), table(entries) {}

  /// The kind of each address, by the address's last byte.
  [[nodiscard]] std::map<int, lb_address_kind> kinds() const {
    std::map<int, lb_address_kind> found;
    for (const auto& [bytes, entry] : entries.entries) {
      found[entry.first.address[15]] = entry.second.kind;
    }
    return found;
  }

  Faults faults;
  FakeTable<lb_address_key, lb_address> entries;
  AddressTable table;
};

using Kinds = std::map<int, lb_address_kind>;

lb_frontend_key frontend(std::uint8_t last, std::uint16_t port = 80) {
  lb_frontend_key key{};
  const auto at = address(0, last);
  std::ranges::copy(at.bytes, std::begin(key.address));
  key.port = port;
  key.protocol = LB_TCP;
  return key;
}

lb::agent::NodeAddress own(std::uint8_t last) {
  return {.address = address(0, last), .kind = LB_NODE_ADDRESS};
}

}  // namespace

TEST_CASE("an address is the node's own before a service's, and a ClusterIP before another one") {
  Fixture fixture;
  fixture.table.count(frontend(1), LB_CLUSTER_IP, 1);
  fixture.table.count(frontend(1, 81), LB_EXTERNAL_IP, 1);
  fixture.table.count(frontend(2), LB_LOAD_BALANCER, 1);
  fixture.table.count(frontend(3), LB_NODE_PORT, 1);
  CHECK(fixture.faults.writes == 0);
  CHECK_FALSE(fixture.table.write_touched());
  CHECK(fixture.kinds() == Kinds{{1, LB_CLUSTER_ADDRESS}, {2, LB_SERVICE_ADDRESS}});

  fixture.table.count(frontend(1), LB_CLUSTER_IP, -1);
  CHECK_FALSE(fixture.table.write_touched());
  CHECK(fixture.kinds() == Kinds{{1, LB_SERVICE_ADDRESS}, {2, LB_SERVICE_ADDRESS}});

  fixture.table.set_node({own(2)});
  CHECK_FALSE(fixture.table.write());
  CHECK(fixture.kinds() == Kinds{{1, LB_SERVICE_ADDRESS}, {2, LB_NODE_ADDRESS}});
  fixture.table.set_node({});
  CHECK_FALSE(fixture.table.write());
  CHECK(fixture.kinds() == Kinds{{1, LB_SERVICE_ADDRESS}, {2, LB_SERVICE_ADDRESS}});
}

TEST_CASE("only touched addresses are written after a batch, and all of them when the node's own change") {
  Fixture fixture;
  fixture.entries.insert({}, {});  // written by an earlier agent
  REQUIRE_FALSE(fixture.table.load());
  fixture.table.count(frontend(1), LB_CLUSTER_IP, 1);
  CHECK_FALSE(fixture.table.write_touched());
  CHECK(fixture.table.size() == 2);
  CHECK(fixture.faults.writes == 1);
  CHECK_FALSE(fixture.table.write_touched());
  CHECK_FALSE(fixture.table.write());
  CHECK(fixture.faults.writes == 1);
  fixture.table.set_node({own(9)});
  CHECK_FALSE(fixture.table.write());
  CHECK(fixture.kinds() == Kinds{{1, LB_CLUSTER_ADDRESS}, {9, LB_NODE_ADDRESS}});
}

TEST_CASE("what is refused stays pending until a write succeeds, and holds nothing else up") {
  Fixture fixture(1);
  fixture.table.count(frontend(1), LB_CLUSTER_IP, 1);
  fixture.table.count(frontend(2), LB_CLUSTER_IP, 1);
  CHECK(fixture.table.write_touched() == boost::system::errc::no_space_on_device);
  CHECK(fixture.table.is_pending());
  CHECK(fixture.kinds().size() == 1);
  CHECK(fixture.table.write());
  CHECK(fixture.table.is_pending());
  const auto served = fixture.kinds().begin()->first;
  fixture.table.count(frontend(static_cast<std::uint8_t>(served)), LB_CLUSTER_IP, -1);
  CHECK_FALSE(fixture.table.write_touched());
  CHECK(fixture.table.is_pending());
  CHECK_FALSE(fixture.table.write());
  CHECK_FALSE(fixture.table.is_pending());
  CHECK(fixture.kinds() == Kinds{{3 - served, LB_CLUSTER_ADDRESS}});
}

TEST_CASE("REL-155 in a full table addresses that go make room for those that come, in every order") {
  for (std::uint8_t fresh = 2; fresh < 40; ++fresh) {  // another order in the container each time
    Fixture fixture(1);
    fixture.table.count(frontend(1), LB_CLUSTER_IP, 1);
    CHECK_FALSE(fixture.table.write_touched());
    fixture.table.count(frontend(1), LB_CLUSTER_IP, -1);
    fixture.table.count(frontend(fresh), LB_CLUSTER_IP, 1);
    CHECK_FALSE(fixture.table.write_touched());
    CHECK(fixture.kinds() == Kinds{{fresh, LB_CLUSTER_ADDRESS}});
    CHECK_FALSE(fixture.table.is_pending());
  }
}

TEST_CASE("REL-156 the last addresses are for the node's own, whatever services claim") {
  Fixture fixture(32);  // two of them
  for (std::uint8_t last = 1; last <= 40; ++last) {
    fixture.table.count(frontend(last), LB_EXTERNAL_IP, 1);
  }
  CHECK(fixture.table.write_touched() == boost::system::errc::no_space_on_device);
  CHECK(fixture.table.size() == 30);
  fixture.table.set_node({own(101), own(102)});
  CHECK(fixture.table.write() == boost::system::errc::no_space_on_device);  // services' are still too many
  CHECK(fixture.kinds().at(101) == LB_NODE_ADDRESS);
  CHECK(fixture.kinds().at(102) == LB_NODE_ADDRESS);
  CHECK(fixture.table.size() == 32);
  for (std::uint8_t last = 1; last <= 40; ++last) {
    fixture.table.count(frontend(last), LB_EXTERNAL_IP, -1);
  }
  CHECK_FALSE(fixture.table.write_touched());
  CHECK(fixture.table.size() == 2);
}
