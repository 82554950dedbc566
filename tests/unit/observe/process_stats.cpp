// SPDX-License-Identifier: Apache-2.0
// Statistics of a process from /proc: of this one, and from files as the kernel may write them.
#include "agent/observe/process_stats.hpp"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/lib/temp_directory.hpp"

namespace {

namespace fs = std::filesystem;
using lb::agent::own_process;

struct Root : lb::test::TempDirectory {
  Root() { fs::create_directories(path / "proc/self/fd"); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path / name) << text; }
};

TEST_CASE("the figures of this process") {
  const auto own = own_process();
  REQUIRE(own);
  CHECK(own->resident_bytes > 1 << 20);
  CHECK(own->virtual_bytes >= own->resident_bytes);
  CHECK(own->open_descriptors >= 3);
  CHECK(own->max_descriptors >= own->open_descriptors);
  const auto now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  CHECK(own->start_time > now - 86400);
  CHECK(own->start_time < now + 1);
}

TEST_CASE("a name with blanks and brackets hides no field, and what is cut short says nothing") {
  const Root root;
  const std::string numbers =
      " S 1 1 1 0 -1 4194304 9 0 0 0 250 50 0 0 20 0 3 0 12345 8192000 77 18446744073709551615";
  root.write("proc/self/stat", "4711 (a) R 1 (b)" + numbers);
  root.write("proc/stat", "cpu 1 2 3\nbtime 1700000000\nprocesses 9\n");
  root.write("proc/self/fd/0", "");
  root.write("proc/self/fd/7", "");
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const auto own = own_process(root.path);
  REQUIRE(own);
  CHECK(own->cpu_seconds == 300 / ticks);
  CHECK(own->start_time == 1700000000 + 12345 / ticks);
  CHECK(own->virtual_bytes == 8192000);
  CHECK(own->resident_bytes == 77 * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  CHECK(own->open_descriptors == 2);
  root.write("proc/self/stat", "4711 (a) R 1 2 3");
  CHECK_FALSE(own_process(root.path));
  fs::remove(root.path / "proc/self/stat");
  CHECK_FALSE(own_process(root.path));
}

}  // namespace
