// SPDX-License-Identifier: Apache-2.0
// A copy to a larger map preserves the contents, for each kind of table (SEM-81).
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <cstdint>
#include <map>

#include "maps/copy.hpp"
#include "tests/prog/lib/real_maps.hpp"

namespace {

using namespace lb::tables_test;
using lb::maps::copy_entries;
using lb::maps::copy_first_elements;

using Table = lb::maps::HashMap<std::uint32_t, std::uint64_t>;

Table hash(std::uint32_t entries) { return make_hash<std::uint32_t, std::uint64_t>("copied", entries); }

template <class Key, class Value>
std::size_t count(const lb::maps::HashMap<Key, Value>& table) {
  std::size_t entries = 0;
  REQUIRE_FALSE(table.for_each([&](const Key& /*key*/, const Value& /*value*/) { ++entries; }));
  return entries;
}

lb_range_key range(std::uint32_t number) {
  lb_range_key key{};
  key.prefix = 32 + 128;
  key.service = number;
  key.address[15] = static_cast<std::uint8_t>(number);
  return key;
}

}  // namespace

TEST_CASE("SEM-81 all entries of a hash are copied into a larger one") {
  auto from = hash(5000);
  for (std::uint32_t key = 0; key < 5000; ++key) {
    REQUIRE_FALSE(from.put(key, key * 7ULL, lb::maps::Put::create));
  }
  auto to = hash(8192);
  REQUIRE_FALSE(copy_entries(from.fd(), to.fd()));
  CHECK(count(to) == 5000);
  for (std::uint32_t key = 0; key < 5000; ++key) {
    REQUIRE(to.get(key).value() == key * 7ULL);
  }
  CHECK_FALSE(to.put(6000, 1, lb::maps::Put::create));
}

TEST_CASE("SEM-81 all entries of a trie are copied into a larger one") {
  auto from = make_hash<lb_range_key, lb_range>("copied", 64, BPF_MAP_TYPE_LPM_TRIE);
  for (std::uint32_t number = 0; number < 64; ++number) {
    REQUIRE_FALSE(from.put(range(number), {.service = number}, lb::maps::Put::create));
  }
  auto to = make_hash<lb_range_key, lb_range>("copied", 128, BPF_MAP_TYPE_LPM_TRIE);
  REQUIRE_FALSE(copy_entries(from.fd(), to.fd()));
  CHECK(count(to) == 64);
  CHECK(to.get(range(63)).value().service == 63);
}

TEST_CASE("SEM-81 an array is copied, whatever the size of its elements, and nothing behind it") {
  auto backends = make_array<lb_backend>("copied", 10'000);
  auto slots = make_array<std::uint32_t>("copied", 10'001);
  for (std::uint32_t at = 0; at < 10'000; ++at) {
    lb_backend backend{};
    backend.service = at + 1;
    backends.store(at, backend);
    slots.store(at + 1, at);
  }
  auto more_backends = make_array<lb_backend>("copied", 30'000);
  auto more_slots = make_array<std::uint32_t>("copied", 20'000);
  REQUIRE_FALSE(copy_entries(backends.fd(), more_backends.fd()));
  REQUIRE_FALSE(copy_entries(slots.fd(), more_slots.fd()));
  for (std::uint32_t at = 0; at < 10'000; ++at) {
    REQUIRE(more_backends.load(at).service == at + 1);
    REQUIRE(more_slots.load(at + 1) == at);
  }
  CHECK(more_backends.load(10'000).service == 0);
  CHECK(more_slots.load(10'003) == 0);
}

TEST_CASE("SEM-81 the first elements of an array fill a smaller one") {
  auto slots = make_array<std::uint32_t>("copied", 20'000);
  for (std::uint32_t at = 0; at < 20'000; ++at) {
    slots.store(at, at + 1);
  }
  auto fewer = make_array<std::uint32_t>("copied", 10'001);
  REQUIRE_FALSE(copy_first_elements(slots.fd(), fewer.fd()));
  for (std::uint32_t at = 0; at < 10'001; ++at) {
    REQUIRE(fewer.load(at) == at + 1);
  }
  CHECK(copy_first_elements(slots.fd(), make_array<lb_backend>("copied", 64).fd()).value() == EINVAL);
  CHECK(copy_first_elements(hash(16).fd(), hash(8).fd()).value() == EINVAL);
}

TEST_CASE("a map of another shape, or a smaller one, takes nothing") {
  auto from = hash(16);
  CHECK(copy_entries(from.fd(), hash(8).fd()).value() == EINVAL);
  CHECK(copy_entries(from.fd(), make_array<lb_backend>("copied", 64).fd()).value() == EINVAL);
  CHECK(copy_entries(from.fd(), make_hash<std::uint32_t, lb_name>("copied", 64).fd()).value() == EINVAL);
  CHECK(copy_entries(-1, from.fd()));
}
