// SPDX-License-Identifier: Apache-2.0
// lb_ranges alone: source ranges of services, and lists, in one map.
#include "agent/tables/range_table.hpp"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <utility>

#include "tests/unit/tables/fakes.hpp"

using lb::agent::range_keys;
using lb::agent::Ranges;
using lb::agent::RangeTable;
using namespace lb::tables_test;

namespace {

struct Fixture {
  explicit Fixture(std::uint32_t limit = 8) : entries(faults, limit), table(entries) {}

  /// The service number and the last byte of the address of each range.
  [[nodiscard]] std::set<std::pair<std::uint32_t, int>> ranges() const {
    std::set<std::pair<std::uint32_t, int>> found;
    for (const auto& [bytes, entry] : entries.entries) {
      CHECK(entry.second.service == entry.first.service);
      found.emplace(entry.first.service, entry.first.address[15]);
    }
    return found;
  }

  Faults faults;
  FakeTable<lb_range_key, lb_range> entries;
  RangeTable table;
};

using Found = std::set<std::pair<std::uint32_t, int>>;
using Prefixes = std::vector<lb::k8s::Prefix>;

lb::k8s::Prefix host(std::uint8_t last) { return {.address = address(0, last), .length = 128}; }

constexpr std::uint32_t web = 3;  ///< a service number

}  // namespace

TEST_CASE("source ranges that come are added, and the others go after") {
  Fixture fixture;
  Ranges have;
  CHECK_FALSE(fixture.table.add(have, range_keys({host(1), host(2)}, web)));
  const auto wanted = range_keys({host(2), host(3)}, web);
  CHECK_FALSE(fixture.table.add(have, wanted));
  CHECK(fixture.ranges() == Found{{web, 1}, {web, 2}, {web, 3}});
  CHECK_FALSE(fixture.table.remove_others(have, Ranges(wanted.begin(), wanted.end())));
  CHECK(fixture.ranges() == Found{{web, 2}, {web, 3}});
  CHECK(have.size() == 2);
}

TEST_CASE("a service is known to have what was written before the table was full") {
  Fixture fixture(2);
  Ranges have;
  CHECK(fixture.table.add(have, range_keys({host(1), host(2), host(3)}, web)) ==
        boost::system::errc::no_space_on_device);
  CHECK(have.size() == 2);
  CHECK_FALSE(fixture.table.is_pending());
  CHECK_FALSE(fixture.table.remove_others(have, {}));
  CHECK(have.empty());
  CHECK(fixture.ranges().empty());
}

TEST_CASE("a range that cannot be removed stays known, and the others go") {
  Fixture fixture;
  Ranges have;
  CHECK_FALSE(fixture.table.add(have, range_keys({host(1), host(2), host(3)}, web)));
  fixture.faults.fail_at = fixture.faults.writes + 1;
  CHECK(fixture.table.remove_others(have, {}) == boost::system::errc::not_enough_memory);
  CHECK(have.size() == 1);
  CHECK(fixture.ranges().size() == 1);
}

TEST_CASE("a list is written as a whole, and changes neither services nor lists that were not set") {
  Fixture fixture;
  Ranges have;
  CHECK_FALSE(fixture.table.add(have, range_keys({host(1)}, web)));
  for (const auto& key : range_keys({host(7)}, LB_XFRM_RANGES)) {
    fixture.entries.insert(key, {LB_XFRM_RANGES});
  }
  REQUIRE_FALSE(fixture.table.load());
  CHECK(fixture.table.set_list(LB_POD_RANGES, {host(4), host(5)}));
  CHECK_FALSE(fixture.table.set_list(LB_POD_RANGES, {host(4), host(5)}));
  CHECK_FALSE(fixture.table.write_lists());
  CHECK(fixture.table.set_list(LB_POD_RANGES, {host(5), host(6)}));
  CHECK_FALSE(fixture.table.write_lists());
  CHECK(fixture.ranges() == Found{{web, 1}, {LB_XFRM_RANGES, 7}, {LB_POD_RANGES, 5}, {LB_POD_RANGES, 6}});
  CHECK(fixture.table.set_list(LB_XFRM_RANGES, {}));
  CHECK_FALSE(fixture.table.write_lists());
  CHECK(fixture.ranges() == Found{{web, 1}, {LB_POD_RANGES, 5}, {LB_POD_RANGES, 6}});
}

TEST_CASE("REL-156 the last ranges are for the node's lists, whatever services ask for") {
  Fixture fixture(32);  // two of them
  Ranges have;
  Prefixes many;
  for (std::uint8_t last = 1; last <= 40; ++last) {
    many.push_back(host(last));
  }
  CHECK(fixture.table.add(have, range_keys(many, web)) == boost::system::errc::no_space_on_device);
  CHECK(have.size() == 30);
  CHECK_FALSE(fixture.table.has_room());
  CHECK(fixture.table.set_list(LB_XFRM_RANGES, {host(1), host(2)}));
  CHECK_FALSE(fixture.table.is_whole(LB_XFRM_RANGES));
  CHECK_FALSE(fixture.table.write_lists());
  CHECK(fixture.table.is_whole(LB_XFRM_RANGES));

  // What services leave, lists may have beyond their reserve; what lists leave is for services again.
  CHECK_FALSE(fixture.table.remove_others(have, {}));
  CHECK(fixture.table.set_list(LB_XFRM_RANGES, {host(1), host(2), host(3), host(4)}));
  CHECK_FALSE(fixture.table.write_lists());
  CHECK(fixture.table.add(have, range_keys(many, web)) == boost::system::errc::no_space_on_device);
  CHECK(have.size() == 28);
  CHECK(fixture.table.set_list(LB_XFRM_RANGES, {}));
  CHECK_FALSE(fixture.table.write_lists());
  CHECK(fixture.table.add(have, range_keys(many, web)) == boost::system::errc::no_space_on_device);
  CHECK(have.size() == 30);
}

TEST_CASE("REL-156 an earlier agent's lists count for the reserve, too") {
  Fixture fixture(32);
  for (const auto& key : range_keys({host(1), host(2)}, LB_POD_RANGES)) {
    fixture.entries.insert(key, {LB_POD_RANGES});
  }
  REQUIRE_FALSE(fixture.table.load());
  Ranges have;
  Prefixes many;
  for (std::uint8_t last = 1; last <= 40; ++last) {
    many.push_back(host(last));
  }
  CHECK(fixture.table.add(have, range_keys(many, web)) == boost::system::errc::no_space_on_device);
  CHECK(have.size() == 30);
}

TEST_CASE("REL-155 in a full table what leaves a list makes room for what comes") {
  Fixture fixture(2);
  CHECK(fixture.table.set_list(LB_POD_RANGES, {host(4), host(5)}));
  CHECK_FALSE(fixture.table.write_lists());
  CHECK(fixture.table.set_list(LB_POD_RANGES, {host(5), host(6)}));
  CHECK_FALSE(fixture.table.write_lists());
  CHECK(fixture.ranges() == Found{{LB_POD_RANGES, 5}, {LB_POD_RANGES, 6}});
  CHECK(fixture.table.is_whole(LB_POD_RANGES));
}

TEST_CASE("a list that was refused stays pending") {
  Fixture fixture(1);
  CHECK(fixture.table.set_list(LB_POD_RANGES, {host(4), host(5)}));
  CHECK(fixture.table.write_lists());
  CHECK(fixture.table.is_pending());
  CHECK(fixture.table.set_list(LB_POD_RANGES, {host(4)}));
  CHECK_FALSE(fixture.table.write_lists());
  CHECK_FALSE(fixture.table.is_pending());
  const int writes = fixture.faults.writes;
  CHECK_FALSE(fixture.table.write_lists());
  CHECK(fixture.faults.writes == writes);
}
