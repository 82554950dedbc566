// SPDX-License-Identifier: Apache-2.0
// The modification time of a directory of pins: two changes never have the same time (REL-19).
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "agent/programs/links.hpp"

TEST_CASE("a directory's change is reported only when the next one will bear another time") {
  const auto path = std::filesystem::temp_directory_path() / ("lb_changes_" + std::to_string(::getpid()));
  const auto name = path / "name";
  std::filesystem::create_directories(path);
  int reported = 0;
  for (int change = 0; change < 400; ++change) {
    if (change % 40 == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const auto before = lb::agent::directory_changed(path);
    if (change % 2 == 0) {
      std::filesystem::create_directory(name);
    } else {
      std::filesystem::remove(name);
    }
    const auto after = lb::agent::directory_changed(path);
    reported += before ? 1 : 0;
    REQUIRE_FALSE((before && before == after));
  }
  CHECK(reported >= 10);
  std::filesystem::remove_all(path);
  CHECK_FALSE(lb::agent::directory_changed(path));
}
