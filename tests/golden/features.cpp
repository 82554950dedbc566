// SPDX-License-Identifier: Apache-2.0
// One test case for each file of tests/golden/features: objects in, lines of map contents out.
// SLUICE_UPDATE_GOLDENS=1 writes what is really shown into the files instead; read the difference before you
// keep it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/internal/catch_test_registry.hpp>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "scenario.hpp"

namespace lb::test {
namespace {

namespace fs = std::filesystem;

bool is_update() {
  const char* value = std::getenv("SLUICE_UPDATE_GOLDENS");  // NOLINT(concurrency-mt-unsafe): one thread
  return value != nullptr && *value == '1';
}

void check(const fs::path& path) {
  const auto expected = read_scenario(path);
  const auto actual = play(expected);
  if (is_update()) {
    write_scenario(path, actual);
    SUCCEED("written");
    return;
  }
  int pictures = 0;
  for (std::size_t i = 0; i < expected.sections.size(); ++i) {
    const auto& section = expected.sections[i];
    if (!section.shows()) {
      continue;
    }
    ++pictures;
    INFO("section " << i + 1 << " (" << section.word << ")\n"
                    << difference(section.body, actual.sections[i].body));
    CHECK(section.body == actual.sections[i].body);
  }
  CHECK(pictures > 0);
}

class Invoker final : public Catch::ITestInvoker {
 public:
  explicit Invoker(fs::path path) : path_(std::move(path)) {}
  void invoke() const override { check(path_); }

 private:
  fs::path path_;
};

/// Made before main, as TEST_CASE does it.
struct Registration {
  Registration() {
    for (const auto& path : scenario_paths()) {
      const auto name = path.stem().string();
      const Catch::AutoReg made(Catch::Detail::make_unique<Invoker>(path), CATCH_INTERNAL_LINEINFO, "",
                                Catch::NameAndTags(name));
    }
  }
};

const Registration registration;

TEST_CASE("there are scenarios") { CHECK(scenario_paths().size() >= 120); }

TEST_CASE("a difference is seen") {
  CHECK(difference({"a", "b"}, {"a", "b"}).empty());
  CHECK(difference({"a", "b"}, {"a", "c"}) == "- b\n+ c\n");
  CHECK(difference({"a", "b"}, {"b", "a"}) == "the same lines in another order:\nb\na\n");
}

}  // namespace
}  // namespace lb::test
