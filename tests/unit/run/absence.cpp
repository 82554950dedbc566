// SPDX-License-Identifier: Apache-2.0
// The message about the time without an agent before a start (REL-97).
#include "agent/run/absence.hpp"

#include <catch2/catch_test_macros.hpp>
#include <chrono>

using namespace lb::agent;
using std::chrono::seconds;

namespace {

constexpr std::chrono::system_clock::time_point then{seconds(1767323045)};

}  // namespace

TEST_CASE("REL-97 a node without an agent for a minute is said to have been so") {
  CHECK(
      absence_text(then, then + seconds(60)) ==
      "no agent ran here for 60 s, since 2026-01-02T03:04:05Z: the programs served what the maps held then");
  CHECK(absence_text(then, then + seconds(7200)).value().find("for 7200 s") != std::string::npos);
}

TEST_CASE("REL-97 a restart, a first start and a clock that went back are not absences") {
  CHECK_FALSE(absence_text(then, then + seconds(59)).has_value());
  CHECK_FALSE(absence_text(std::nullopt, then).has_value());
  CHECK_FALSE(absence_text(then, then - seconds(3600)).has_value());
}
