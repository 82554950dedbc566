// One test case for each file of tests/golden/features: objects in, lines of map contents out.
// SLUICE_UPDATE_GOLDENS=1 writes what is really shown into the files instead; read the difference before you
// keep it.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/internal/catch_test_registry.hpp>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "scenario.hpp"

namespace lb::test {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> features() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(SLUICE_SOURCE_DIR) / "tests/golden/features")) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

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
    if (!section.shows()) continue;
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
    for (const auto& path : features()) {
      const auto name = path.stem().string();
      const Catch::AutoReg made(Catch::Detail::make_unique<Invoker>(path), CATCH_INTERNAL_LINEINFO, "",
                                Catch::NameAndTags(name));
    }
  }
};

const Registration registration;

TEST_CASE("there are scenarios, and each names its rows") {
  const auto paths = features();
  CHECK(paths.size() >= 40);
  for (const auto& path : paths) {
    CAPTURE(path.filename());
    const auto preamble = read_scenario(path).preamble;
    REQUIRE(preamble.size() >= 2);
    CHECK((preamble[1].starts_with("SEM-") || preamble[1].starts_with("REL-")));
  }
}

TEST_CASE("a difference is seen") {
  CHECK(difference({"a", "b"}, {"a", "b"}).empty());
  CHECK(difference({"a", "b"}, {"a", "c"}) == "- b\n+ c\n");
  CHECK(difference({"a", "b"}, {"b", "a"}) == "the same lines in another order:\nb\na\n");
}

}  // namespace
}  // namespace lb::test
