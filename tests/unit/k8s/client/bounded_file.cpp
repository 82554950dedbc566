// SPDX-License-Identifier: Apache-2.0
#include "k8s/client/bounded_file.hpp"

#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <fstream>

#include "tests/lib/temp_directory.hpp"

using lb::k8s::read_bounded;

TEST_CASE("k8s read_bounded: up to its limit, and an errno for everything else") {
  const lb::test::TempDirectory directory;
  std::ofstream(directory.path / "ten") << "0123456789";
  std::string text = "before";

  CHECK(read_bounded(directory.path / "ten", 9, text) == EFBIG);
  CHECK(read_bounded(directory.path / "none", 9, text) == ENOENT);
  CHECK(read_bounded(directory.path, 9, text) == EISDIR);
  CHECK(read_bounded("/dev/zero", 100'000, text) == EFBIG);
  CHECK(text == "before");

  CHECK(read_bounded(directory.path / "ten", 10, text) == 0);
  CHECK(text == "0123456789");
}

TEST_CASE("k8s read_bounded: a FIFO without a writer reads as empty, and does not block") {
  const lb::test::TempDirectory directory;
  REQUIRE(::mkfifo((directory.path / "fifo").c_str(), 0600) == 0);
  std::string text = "before";
  CHECK(read_bounded(directory.path / "fifo", 10, text) == 0);
  CHECK(text.empty());
}
