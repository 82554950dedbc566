// SPDX-License-Identifier: Apache-2.0
// Splitting JSON: where values end, in whatever pieces they come; the items of lists; positions of JSON
// pointers.
#include "k8s/encoding/framing.hpp"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>

#include "k8s/encoding/text_position.hpp"

using namespace lb::k8s;

TEST_CASE("k8s framing: a value ends at the same byte however it is cut into pieces") {
  const std::string values[] = {R"({"a":[1,{"b":"}]\"\\"}],"c":{}})", R"("x\"y")", R"([[],{},"]"])", "{}",
                                "[]"};
  for (const auto& value : values) {
    const auto text = value + ",{}";
    for (std::size_t cut = 0; cut <= value.size(); ++cut) {
      CAPTURE(value, cut);
      ValueScanner scanner;
      const auto first = scanner.scan(std::string_view(text).substr(0, cut));
      if (cut == value.size()) {
        REQUIRE(first == value.size());
        continue;
      }
      REQUIRE_FALSE(first);
      REQUIRE(scanner.scan(std::string_view(text).substr(cut)) == value.size() - cut);
    }
  }
}

TEST_CASE("k8s framing: numbers and words end before what follows") {
  CHECK(ValueScanner().scan("12,") == 2U);
  CHECK(ValueScanner().scan("true}") == 4U);
  CHECK_FALSE(ValueScanner().scan("12"));
  CHECK_FALSE(ValueScanner().scan(""));
}

TEST_CASE("k8s framing: objects and lists are cut") {
  struct Row {
    const char* text;
    const char* kind;
    const char* items;  // expected items, joined by |
    bool whole;
  };
  const Row rows[] = {
      {R"({"kind":"Service","apiVersion":"v1"})", "Service", "", true},
      {R"( {"items" : [ {"a":1} , {"b":[2]} ] , "kind" : "List" } )", "List", R"({"a":1}|{"b":[2]})", true},
      {R"({"kind":"List","items":[]})", "List", "", true},
      {R"({"kind":"List","items":null})", "List", "", true},
      {R"({"kind":"List","items":[{},{"x":)", "List", "{}", false},
      {R"({"kind":"List","items":[{}{}]})", "List", "{}", false},
      {R"({"kind":"List","items":[{},]})", "List", "{}", false},
      {R"({"kind":7})", "", "", true},
      {"{}", "", "", true},
      {R"({"a":1,})", "", "", false},
      {"[]", "", "", false},
      {"", "", "", false},
      {"{", "", "", false},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    const auto cut = cut_object(row.text);
    std::string items;
    for (const auto item : cut.items) {
      items += (items.empty() ? "" : "|") + std::string(item);
    }
    CHECK(cut.kind == row.kind);
    CHECK(items == row.items);
    CHECK(cut.broken_at.has_value() != row.whole);
  }
}

TEST_CASE("k8s places: a pointer finds its value") {
  const std::string json = R"({"a": {"b/c": [10, {"d": true}], "e~": 1}, "f": "x"})";
  const auto at = [&](const char* pointer) {
    const auto found = locate(json, pointer);
    return json.substr(found, 3);
  };
  CHECK(at("") == "{\"a");
  CHECK(at("/a/b~1c/0") == "10,");
  CHECK(at("/a/b~1c/1/d") == "tru");
  CHECK(at("/a/e~0") == "1},");
  CHECK(at("/f") == "\"x\"");
  // For a missing member, the position of the deepest existing parent.
  CHECK(at("/a/b~1c/2") == "[10");
  CHECK(at("/g") == "{\"a");
  CHECK(at("/f/g") == "\"x\"");
  CHECK(at("/a/b~1c/x") == "[10");
}

TEST_CASE("k8s places: the first bad byte of broken JSON") {
  struct Row {
    const char* text;
    std::size_t at;
  };
  const Row rows[] = {{R"({"a": 1 "b": 2})", 8}, {R"({"a": tru})", 6}, {R"({"a": [1,]})", 9},
                      {R"({"a": 1)", 7},         {R"({a: 1})", 1},     {"{\"a\": \"x\ny\"}", 6},
                      {R"({"a" 1})", 5}};
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(syntax_error_at(row.text) == row.at);
    CHECK_FALSE(is_json(row.text));
  }
  CHECK(is_json(R"( {"a": [1, -2.5e3, true, null, "x"], "b": {}} )"));
  CHECK_FALSE(is_json("{} {}"));
  CHECK(syntax_error_at(std::string(100000, '[')) == 100);
}
