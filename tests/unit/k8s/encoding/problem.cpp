// SPDX-License-Identifier: Apache-2.0
// Reasons of problems are logged: they are UTF-8, whatever they quote and wherever they are truncated.
#include "k8s/encoding/problem.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "k8s/encoding/decode.hpp"
#include "k8s/encoding/rules.hpp"

using namespace lb::k8s;

namespace {

std::string reason(std::string text) {
  Problems problems;
  problems.add(std::move(text));
  return problems.take().at(0).reason;
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) {
    out += text;
  }
  return out;
}

}  // namespace

TEST_CASE("REL-36 a text is cut between characters") {
  CHECK(start_of("abc", 2) == "ab");
  CHECK(start_of("abc", 3) == "abc");
  CHECK(start_of("abc", 4) == "abc");
  CHECK(start_of("a\u00e9", 2) == "a");
  CHECK(start_of("\u20ac\u20ac", 5) == "\u20ac");
  CHECK(start_of("\x80\x80\x80", 2).empty());
  CHECK(start_of("", 2).empty());
}

TEST_CASE("REL-36 reasons are UTF-8") {
  CHECK(reason("a\u00e9b") == "a\u00e9b");
  CHECK(reason("a\u00e9\xff\n") == "a????");
  for (const auto& before : {"", "x", "xx"}) {
    const auto longest = before + repeated("\u20ac", 300);
    CHECK(valid_utf8(reason(longest)));
    CHECK(reason(longest).ends_with("\u20ac..."));
    CHECK(valid_utf8(rules::quoted(longest)));
    CHECK(rules::quoted(longest).ends_with("\u20ac\"..."));
  }
}
