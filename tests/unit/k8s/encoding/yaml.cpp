// SPDX-License-Identifier: Apache-2.0
// YAML to JSON: scalars as in YAML 1.2's core schema, line numbers preserved, limits enforced (REL-86).
#include "k8s/encoding/yaml.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

using lb::k8s::yaml_to_json;

namespace {

/// The JSON without the newlines that preserve line numbers.
std::string json_of(const std::string& yaml) {
  auto result = yaml_to_json(yaml);
  std::erase(result.json, '\n');
  return result.error.empty() ? result.json : "error: " + result.error;
}

}  // namespace

TEST_CASE("k8s yaml: scalars") {
  struct Row {
    const char* yaml;
    const char* json;
  };
  const Row rows[] = {
      {"80", "80"},
      {"\"80\"", "\"80\""},
      {"'80'", "\"80\""},
      {"-1", "-1"},
      {"+1", "1"},
      {"080", "80"},
      {"0x10", "16"},
      {"0o17", "15"},
      {"0x", "\"0x\""},
      {"true", "true"},
      {"False", "false"},
      {"TRUE", "true"},
      {"yes", "\"yes\""},
      {"no", "\"no\""},
      {"on", "\"on\""},
      {"Off", "\"Off\""},
      {"y", "\"y\""},
      {"\"true\"", "\"true\""},
      {"null", "null"},
      {"~", "null"},
      {"", "null"},
      {"Null", "null"},
      {"\"\"", "\"\""},
      {"10.0.0.1", "\"10.0.0.1\""},
      {"1:30", "\"1:30\""},
      {"2026-01-02", "\"2026-01-02\""},
      {".inf", "\".inf\""},
      {".nan", "\".nan\""},
      {"!!str 80", "\"80\""},
      {"!!int \"80\"", "80"},
      {"a b", "\"a b\""},
      {"1_000", "\"1_000\""},
      {"--1", "\"--1\""},
      {"+-1", "\"+-1\""},
      {"fe80::1", "\"fe80::1\""},
      {"\"\\u00e9\\n\"", "\"\xc3\xa9\\u000a\""},
      {"'a\\b\"c'", "\"a\\\\b\\\"c\""},

      {"inf", "\"inf\""},
      {"nan", "\"nan\""},
  };
  for (const auto& row : rows) {
    CAPTURE(row.yaml);
    CHECK(json_of("a: " + std::string(row.yaml)) == "{\"a\":" + std::string(row.json) + "}");
  }
}

TEST_CASE("k8s yaml: numbers with fractions and beyond 64 bits stay numbers with fractions") {
  CHECK(json_of("[1.5]") == "[1.50000000000000000e+00]");
  CHECK(json_of("[99999999999999999999]") == "[1.00000000000000000e+20]");
}

TEST_CASE("k8s yaml: structures") {
  struct Row {
    const char* yaml;
    const char* json;
  };
  const Row rows[] = {
      {"a:\n- 1\n- b: 2\n  c: {d: [3, 4]}\n", R"({"a":[1,{"b":2,"c":{"d":[3,4]}}]})"},
      {"a: &x {b: 1}\nc: *x\nd: [*x, *x]\n", R"({"a":{"b":1},"c":{"b":1},"d":[{"b":1},{"b":1}]})"},
      {"a: &x\n  b: &y\n    c: 1\nd: *y\ne: *x\n", R"({"a":{"b":{"c":1}},"d":{"c":1},"e":{"b":{"c":1}}})"},
      {"a: &x b\n*x : 1\n", R"({"a":"b","b":1})"},
      {"80: x\ntrue: y\n~: z\n", R"({"80":"x","true":"y","null":"z"})"},
      {"a: |\n  x\n  y\nb: >-\n  x\n  y\n", "{\"a\":\"x\\u000ay\\u000a\",\"b\":\"x y\"}"},
      {"{\"a\": [1, {\"b\": null}]}", R"({"a":[1,{"b":null}]})"},
      {"a: []\nb: {}\n", R"({"a":[],"b":{}})"},
      {"a: [[1], [[2]]]\n", R"({"a":[[1],[[2]]]})"},
      {"a: 1\r\nb: x\r\n", R"({"a":1,"b":"x"})"},
      {"# comment\n", "null"},
      {"", "null"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.yaml);
    CHECK(json_of(row.yaml) == row.json);
  }
}

TEST_CASE("k8s yaml: what is refused, and on which line") {
  struct Row {
    const char* yaml;
    const char* error;
    std::size_t line;
  };
  const Row rows[] = {
      {"a: 1\nb: [1\nc: 2\n", "is not valid YAML", 2},
      {"a: 1\nb: c: d\n", "is not valid YAML", 1},
      {"a:\n\t- b\n", "is not valid YAML", 1},
      {"a: \"x\n", "is not valid YAML", 0},
      {"a: @x\n", "is not valid YAML", 0},
      {"a: 1\nb: *nothing\n", "is not valid YAML", 1},
      {"a: 1\n<<: {b: 1}\n", "merge key", 1},
      {"a: 1\nb: &b [*b]\n", "refers to a node which contains it", 1},
      {"a: 1\nb: !mine x\n", "unknown tag", 1},
      {"a: !!binary aGk=\n", "unknown tag", 0},
      {"a: 1\n[1]: 2\n", "key that is not a scalar", 1},
      {"? {a: b}\n: 2\n", "key that is not a scalar", 0},
      {"a: &a [1]\n*a : 1\n", "as key that is not a string", 1},
      {"a: 1\n...\nb: 2\n", "second document", 2},
  };
  for (const auto& row : rows) {
    CAPTURE(row.yaml);
    const auto result = yaml_to_json(row.yaml);
    CHECK(result.error.find(row.error) != std::string::npos);
    CAPTURE(result.error);
    CHECK(result.line == row.line);
  }
}

TEST_CASE("k8s yaml: every value stands on its own line") {
  const std::string yaml =
      "# comment\nfirst: 1\n\n\nlist:\n  - second\n  # comment\n  - third\nlast: fourth\n";
  const auto result = yaml_to_json(yaml);
  REQUIRE(result.error.empty());
  const auto line = [&](const std::string& text, std::string_view word) {
    return std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find(word)), '\n');
  };
  for (const auto* word : {"first", "second", "third", "last", "fourth"}) {
    CAPTURE(word);
    CHECK(line(result.json, word) == line(yaml, word));
  }
}

TEST_CASE("k8s yaml: alias bombs, depth and length end in an error") {
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c <= 'z'; ++c) {
    bomb += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 10; ++i) {
      bomb += std::string(i > 0 ? "," : "") + "*" + static_cast<char>(c - 1);
    }
    bomb += "]\n";
  }
  const auto result = yaml_to_json(bomb);
  CHECK(result.error.find("aliases") != std::string::npos);
  CHECK(result.json.size() < (16U << 20U));

  CHECK_FALSE(yaml_to_json("a: " + std::string(100'000, '[')).error.empty());
  CHECK(yaml_to_json("a: " + std::string(120, '[') + std::string(120, ']')).error.find("100 levels") !=
        std::string::npos);
  CHECK(yaml_to_json("a: " + std::string(90, '[') + std::string(90, ']')).error.empty());
  std::string steps;
  for (std::size_t i = 0; i < 1000; ++i) {
    steps += std::string(i, ' ') + "a:\n";
  }
  CHECK_FALSE(yaml_to_json(steps).error.empty());
}
