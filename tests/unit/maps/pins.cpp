// SPDX-License-Identifier: Apache-2.0
// Paths of pins, and the messages about them.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "maps/mapset.hpp"
#include "tests/lib/temp_directory.hpp"

using lb::maps::Access;
using lb::maps::MapSet;
using lb::maps::OpenFault;
using lb::maps::Pins;

TEST_CASE("pins lie below a directory of their layout") {
  const Pins pins("/sys/fs/bpf/sluice");
  CHECK(pins.map("lb_slots") == "/sys/fs/bpf/sluice/v8/maps/lb_slots");
  CHECK(pins.link("lb_connect4") == "/sys/fs/bpf/sluice/v8/links/lb_connect4");
  CHECK(Pins("/pins", 7).version() == "/pins/v7");
}

TEST_CASE("no Sluice, another layout and a missing map are distinguished") {
  const lb::test::TempDirectory directory;
  const Pins pins(directory.path);
  const auto nothing = MapSet::open(pins, Access::read);
  REQUIRE_FALSE(nothing.has_value());
  CHECK(nothing.error().fault == OpenFault::nothing_here);
  CHECK(nothing.error().message() ==
        "no Sluice at " + directory.path.string() + ": start `sluice agent`, or give its --pins directory");

  for (const char* name : {"v7", "v9", "v", "vx", "v3x", "other"}) {
    std::filesystem::create_directories(directory.path / name);
  }
  CHECK(pins.other_layout() == 9);
  const auto other = MapSet::open(pins, Access::read);
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().fault == OpenFault::other_layout);
  CHECK(other.error().message().find(fmt::format("have layout 9, this program reads layout {}", LB_LAYOUT)) !=
        std::string::npos);

  std::filesystem::create_directories(pins.maps());
  const auto missing = MapSet::open(pins, Access::read);
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().where == pins.map("lb_frontends"));
  CHECK(missing.error().message().find("lb_frontends") != std::string::npos);
}
