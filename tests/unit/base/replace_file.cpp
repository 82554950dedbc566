// SPDX-License-Identifier: Apache-2.0
// A file is replaced as a whole, and nothing else is written.
#include "agent/base/replace_file.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "tests/lib/temp_directory.hpp"

namespace lb::test {
namespace {

using Catch::Matchers::ContainsSubstring;

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a file is replaced, and no draft stays") {
  const TempDirectory directory;
  const auto path = directory.path / "sluice.prom";
  CHECK(agent::replace_file(path, "one\n").empty());
  CHECK(agent::replace_file(path, "two\n").empty());
  CHECK(content(path) == "two\n");
  std::ofstream(directory.path / "sluice.prom.new") << "what a killed agent left, longer than the text";
  CHECK(agent::replace_file(path, "three\n").empty());
  CHECK(content(path) == "three\n");
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path), {}) == 1);
}

// node_exporter's directory of text files often belongs to a user of its own.
TEST_CASE("a link in place of the draft, or of the file, is not followed") {
  const TempDirectory directory;
  const auto path = directory.path / "sluice.prom";
  const auto victim = directory.path / "victim";
  std::ofstream(victim) << "kept";
  std::filesystem::create_symlink(victim, directory.path / "sluice.prom.new");
  CHECK(agent::replace_file(path, "text\n").empty());
  CHECK(content(victim) == "kept");
  std::filesystem::remove(path);
  std::filesystem::create_symlink(victim, path);
  CHECK(agent::replace_file(path, "text\n").empty());
  CHECK(content(victim) == "kept");
  CHECK(content(path) == "text\n");
}

TEST_CASE("a file that cannot be replaced is named") {
  const TempDirectory directory;
  CHECK_THAT(agent::replace_file(directory.path / "absent" / "file", "x"),
             ContainsSubstring("absent/file.new: No such file"));
  std::filesystem::create_directories(directory.path / "taken" / "full");
  CHECK_THAT(agent::replace_file(directory.path / "taken", "x"), ContainsSubstring("cannot replace"));
}

}  // namespace lb::test
