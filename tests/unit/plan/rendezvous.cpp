// SPDX-License-Identifier: Apache-2.0
// The consistent table: shares, which slots move when members are removed, and that it depends on the
// endpoints only.
#include "agent/plan/rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <random>

namespace {

using namespace lb::agent;

constexpr std::uint32_t size = 16381;

std::vector<RendezvousMember> members(std::uint32_t count, std::uint32_t first_id = 1) {
  std::vector<RendezvousMember> made;
  for (std::uint32_t number = 0; number < count; ++number) {
    RendezvousMember member;
    member.address.bytes = {0,
                            0,
                            0,
                            0,
                            0,
                            0,
                            0,
                            0,
                            0,
                            0,
                            0xff,
                            0xff,
                            10,
                            244,
                            static_cast<std::uint8_t>(number / 250),
                            static_cast<std::uint8_t>(number % 250)};
    member.port = 8080;
    member.id = first_id + number;
    made.push_back(member);
  }
  return made;
}

std::vector<std::uint32_t> table(const std::vector<RendezvousMember>& of, std::uint32_t slots = size) {
  std::vector<std::uint32_t> made;
  rendezvous_slots(of, slots, made);
  return made;
}

std::map<std::uint32_t, std::uint32_t> loads(const std::vector<std::uint32_t>& slots) {
  std::map<std::uint32_t, std::uint32_t> counted;
  for (const auto id : slots) {
    ++counted[id];
  }
  return counted;
}

/// How many more slots move than belonged to the removed members, in percent of all slots.
double excess(const std::vector<RendezvousMember>& before, const std::vector<RendezvousMember>& after) {
  const auto old_slots = table(before);
  const auto new_slots = table(after);
  std::uint32_t moved = 0;
  for (std::uint32_t slot = 0; slot < size; ++slot) {
    moved += old_slots[slot] != new_slots[slot] ? 1 : 0;
  }
  const auto gone = static_cast<double>(before.size() - after.size()) / static_cast<double>(before.size());
  return 100.0 * (moved / double{size} - gone);
}

TEST_CASE("consistent selection: none and one need no table") {
  CHECK(table({}).empty());
  CHECK(table(members(1, 7)) == std::vector<std::uint32_t>{7});
  CHECK(table(members(2)).size() == size);
}

TEST_CASE("SEM-50 consistent selection: no backend exceeds its share by more than a twentieth") {
  for (const std::uint32_t count : {2U, 3U, 10U, 100U, 160U, 1000U}) {
    CAPTURE(count);
    const auto counted = loads(table(members(count)));
    CHECK(counted.size() == count);
    for (const auto& [id, slots] : counted) {
      CHECK(slots <= size * 1.05 / count + 1);
    }
  }
}

TEST_CASE("consistent selection: shares follow weights") {
  auto weighted = members(12);
  unsigned total = 0;
  for (std::size_t at = 0; at < weighted.size(); ++at) {
    weighted[at].weight = static_cast<std::uint8_t>(at < 11 ? 1 + at * 5 : 100);
    total += weighted[at].weight;
  }
  const auto counted = loads(table(weighted, 131071));
  for (const auto& member : weighted) {
    const double share = 131071.0 * member.weight / total;
    CAPTURE(member.weight, share, counted.at(member.id));
    CHECK(counted.at(member.id) <= share * 1.05 + 1);
    CHECK(counted.at(member.id) >= share * 0.93);
  }
}

TEST_CASE("SEM-50 consistent selection: at most 1 % more moves than the share of the members that go") {
  std::mt19937 random(7);
  for (const std::uint32_t count : {3U, 10U, 30U, 100U, 160U}) {
    for (const std::uint32_t go : {1U, count / 10, count / 3}) {
      if (go == 0) {
        continue;
      }
      const auto before = members(count);
      auto after = before;
      std::shuffle(after.begin(), after.end(), random);
      after.resize(count - go);
      std::ranges::sort(after, {}, &RendezvousMember::id);
      CAPTURE(count, go);
      CHECK(excess(before, after) <= 1.0);
      // Adding the members again restores the table.
      CHECK(table(before) == table(members(count)));
    }
  }
}

TEST_CASE("consistent selection: a drained member's slots alone move, also where weights differ") {
  auto before = members(20);
  for (std::size_t at = 0; at < before.size(); ++at) {
    before[at].weight = static_cast<std::uint8_t>(1 + at % 3);
  }
  auto after = before;
  after.erase(after.begin() + 4);
  const auto old_slots = table(before);
  const auto new_slots = table(after);
  std::uint32_t moved = 0;
  for (std::uint32_t slot = 0; slot < size; ++slot) {
    moved += old_slots[slot] != before[4].id && old_slots[slot] != new_slots[slot] ? 1 : 0;
  }
  CHECK(moved <= size / 100);
}

TEST_CASE("consistent selection: ids and order do not matter, ports and addresses do") {
  const auto plain = table(members(50));
  auto renamed = members(50, 1001);
  std::ranges::reverse(renamed);
  auto mapped = table(renamed);
  for (auto& id : mapped) {
    id -= 1000;
  }
  std::uint32_t differ = 0;
  for (std::uint32_t slot = 0; slot < size; ++slot) {
    differ += plain[slot] != mapped[slot] ? 1 : 0;
  }
  CHECK(differ == 0);
  auto elsewhere = members(50);
  for (auto& member : elsewhere) {
    member.port = 9090;
  }
  CHECK(table(elsewhere) != plain);
}

}  // namespace
