// SPDX-License-Identifier: Apache-2.0
// Map entries as text (maps/text.hpp), where goldens do not cover it.
#include "maps/text.hpp"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "build.hpp"

namespace lb::test {
namespace {

TEST_CASE("addresses of both widths") {
  CHECK(maps::address_text(address("10.1.0.5").bytes) == "10.1.0.5");
  CHECK(maps::address_text(address("fd00::1").bytes) == "fd00::1");
  CHECK(maps::socket_text(address("0.0.0.0").bytes, 80) == "0.0.0.0:80");
  CHECK(maps::socket_text(address("::").bytes, 80) == "[::]:80");
  constexpr std::array<std::uint8_t, 4> narrow{192, 0, 2, 1};
  CHECK(maps::socket_text(narrow, 53) == "192.0.2.1:53");
}

TEST_CASE("text of a full array ends with it") {
  constexpr std::array<char, 4> full{'a', 'b', 'c', 'd'};
  CHECK(maps::stored_text(full) == "abcd");
  constexpr std::array<char, 4> half{'a', 'b', '\0', 'd'};
  CHECK(maps::stored_text(half) == "ab");
}

}  // namespace
}  // namespace lb::test
