// SPDX-License-Identifier: Apache-2.0
// Network namespaces that are gone before they are entered.
#include "agent/netlink/netns.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <fstream>

#include "agent/base/system_error.hpp"
#include "tests/lib/temp_directory.hpp"

namespace lb::agent {
namespace {

TEST_CASE(
    "SEM-46 a network namespace that is being removed is gone, whether or not its file is still there") {
  const test::TempDirectory directory;
  const auto file = directory.path / "netns";
  const auto enter = [&] {
    return in_netns(file, [] {
      FAIL("entered");
      return boost::system::error_code();
    });
  };
  CHECK(enter() == system_error(ENOENT));
  std::ofstream(file).close();
  CHECK(enter() == system_error(ENOENT));
}

}  // namespace
}  // namespace lb::agent
