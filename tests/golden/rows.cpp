// The lists of rows (ROWS here, and tests/ROWS for the other sections) against the scenarios and tests that
// they name: neither may claim what the other does not.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "scenario.hpp"

namespace lb::test {
namespace {

namespace fs = std::filesystem;

constexpr int last_row = 30;  ///< of sections 1 and 2

struct Row {
  std::string name;
  std::vector<std::string> places;
};

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

Row row_of(const std::string& line) {
  std::istringstream fields(line);
  Row row;
  std::string bar;
  fields >> row.name >> bar;
  for (std::string place; fields >> place && place != "|";) row.places.push_back(place);
  return row;
}

std::vector<Row> listed_rows(const std::string& list = "tests/golden/ROWS") {
  std::istringstream text(text_of(fs::path(SLUICE_SOURCE_DIR) / list));
  std::vector<Row> rows;
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with('#')) rows.push_back(row_of(line));
  }
  return rows;
}

/// What the second lines of all scenarios name.
std::set<std::string> shown_rows() {
  static const std::regex row("SEM-[0-9]+[a-z]?|REL-[0-9]+");
  std::set<std::string> names;
  for (const auto& path : scenario_paths()) {
    const auto line = read_scenario(path).preamble.at(1);
    for (std::sregex_iterator it(line.begin(), line.end(), row), end; it != end; ++it)
      names.insert(it->str());
  }
  return names;
}

bool is_named_in(const std::string& row, const std::string& file) {
  const auto path = fs::path(SLUICE_SOURCE_DIR) / file;
  return fs::is_regular_file(path) && std::regex_search(text_of(path), std::regex(row + "\\b"));
}

/// Empty: the row is tested there.
std::string objection(const Row& row, const std::string& place, const std::set<std::string>& shown) {
  if (place == "features") return shown.contains(row.name) ? "" : "no scenario names it";
  return is_named_in(row.name, place) ? "" : place + " does not name it";
}

TEST_CASE("every row of sections 1 and 2 is listed once, in order") {
  const auto rows = listed_rows();
  REQUIRE(rows.size() == last_row);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].name == "SEM-" + std::to_string(i + 1));
    CHECK(!rows[i].places.empty());
  }
}

TEST_CASE("a row is tested where the list says") {
  const auto shown = shown_rows();
  for (const auto& row : listed_rows()) {
    CAPTURE(row.name);
    for (const auto& place : row.places) CHECK(objection(row, place, shown) == "");
  }
}

TEST_CASE("a row that scenarios name is listed as theirs") {
  const auto shown = shown_rows();
  for (const auto* list : {"tests/golden/ROWS", "tests/ROWS"}) {
    for (const auto& row : listed_rows(list)) {
      CAPTURE(row.name);
      const std::set<std::string> places(row.places.begin(), row.places.end());
      CHECK(places.contains("features") == shown.contains(row.name));
    }
  }
}

/// What comes with operating it later.
bool comes_later(const std::string& row) {
  static const std::set<std::string> later = {"SEM-68", "SEM-74", "SEM-77", "SEM-78", "REL-54",
                                              "REL-56", "REL-57", "REL-59", "REL-84"};
  return later.contains(row);
}

std::vector<std::string> rows_between(const std::string& kind, int first, int last) {
  std::vector<std::string> names;
  for (int number = first; number <= last; ++number) {
    auto name = kind + std::to_string(number);
    if (!comes_later(name)) names.push_back(std::move(name));
  }
  return names;
}

TEST_CASE("every row of the other sections and of the reliability list is listed once, in order") {
  auto wanted = rows_between("SEM-", last_row + 1, 91);
  for (const auto& [first, last] : {std::pair{1, 23}, {30, 44}, {50, 87}}) {
    for (auto& name : rows_between("REL-", first, last)) wanted.push_back(std::move(name));
  }
  std::vector<std::string> listed;
  for (const auto& row : listed_rows("tests/ROWS")) listed.push_back(row.name);
  CHECK(listed == wanted);
}

TEST_CASE("a row of the other sections is tested where the list says, or the list says that it is not") {
  const auto shown = shown_rows();
  for (const auto& row : listed_rows("tests/ROWS")) {
    CAPTURE(row.name);
    REQUIRE(!row.places.empty());
    if (row.places == std::vector<std::string>{"-"}) continue;
    for (const auto& place : row.places) CHECK(objection(row, place, shown) == "");
  }
}

TEST_CASE("the second line of a scenario is a list of rows") {
  static const std::regex list(
      "(SEM-[0-9]+[a-z]?|REL-[0-9]+)( choice [A-J])?(, (SEM-[0-9]+[a-z]?|REL-[0-9]+)( choice [A-J])?)*");
  for (const auto& path : scenario_paths()) {
    CAPTURE(path.filename());
    const auto preamble = read_scenario(path).preamble;
    REQUIRE(preamble.size() == 2);
    CHECK(std::regex_match(preamble[1], list));
  }
}

TEST_CASE("a row is not its longer namesake, and files that are not there name nothing") {
  CHECK(is_named_in("SEM-20", "tests/unit/plan/categorize.cpp"));
  CHECK_FALSE(is_named_in("SEM-2", "tests/unit/plan/categorize.cpp"));
  CHECK_FALSE(is_named_in("SEM-20", "tests/unit/absent.cpp"));
  CHECK(objection({"SEM-20", {"features"}}, "features", {"SEM-2"}) == "no scenario names it");
  CHECK(objection({"SEM-20", {}}, "tests/unit/absent.cpp", {}) == "tests/unit/absent.cpp does not name it");
}

}  // namespace
}  // namespace lb::test
