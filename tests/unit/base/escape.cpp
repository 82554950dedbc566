// SPDX-License-Identifier: Apache-2.0
// How untrusted names are escaped for output: one row for each text.
#include "agent/base/escape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <string_view>

#include "agent/commands/show.hpp"
#include "k8s/encoding/decode.hpp"

namespace {

using namespace std::string_view_literals;
using lb::agent::escaped;

struct Row {
  std::string_view what;
  std::string_view text;
  std::string_view shown;
};

constexpr Row rows[] = {
    {"letters of any language", "eth0, ünd 日本\tok 👍🏽", "eth0, ünd 日本\tok 👍🏽"},
    {"a colour of a terminal", "pod\x1b[31m\a\x7f", "pod\\x1b[31m\\x07\\x7f"},
    {"a zero", "a\0b"sv, "a\\x00b"},
    {"another line", "web\nSluice: all is well\r", "web\\nSluice: all is well\\r"},
    {"C1's CSI",
     "pod\xc2\x9b"
     "2J",
     "pod\\u009b2J"},
    {"the first and the last of C1, and their neighbours", "\xc2\x80\xc2\x9f\xc2\xa0",
     "\\u0080\\u009f\xc2\xa0"},
    {"right-to-left override",
     "web\xe2\x80\xae"
     "gpj.exe",
     "web\\u202egpj.exe"},
    {"embeddings, pop, overrides", "\xe2\x80\xaa\xe2\x80\xab\xe2\x80\xac\xe2\x80\xad",
     "\\u202a\\u202b\\u202c\\u202d"},
    {"isolates", "\xe2\x81\xa6\xe2\x81\xa7\xe2\x81\xa8\xe2\x81\xa9", "\\u2066\\u2067\\u2068\\u2069"},
    {"marks of direction", "\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c", "\\u200e\\u200f\\u061c"},
    {"separators of lines and paragraphs", "\xe2\x80\xa8\xe2\x80\xa9", "\\u2028\\u2029"},
    {"no width",
     "we\xe2\x80\x8b"
     "b\xef\xbb\xbf",
     "we\\u200bb\\ufeff"},
    {"tags", "\xf3\xa0\x81\xa1", "\\U000e0061"},
    {"no UTF-8: all beyond ASCII", "pod\xff\xfe\x1bé", "pod\\xff\\xfe\\x1b\\xc3\\xa9"},
    {"cut within a character", "\xc3", "\\xc3"},
    {"a surrogate", "\xed\xa0\x80", "\\xed\\xa0\\x80"},
    {"nothing", "", ""},
};

TEST_CASE("what is escaped of a name from outside") {
  for (const auto& row : rows) {
    CAPTURE(row.what);
    CHECK(escaped(row.text) == row.shown);
    CHECK(escaped(row.shown) == row.shown);
    CHECK(lb::k8s::valid_utf8(escaped(row.text)));
  }
}

TEST_CASE("every character of the Basic Multilingual Plane is itself or an escape") {
  for (unsigned point = 0x800; point < 0x10000; ++point) {
    if (point >= 0xd800 && point < 0xe000) {
      continue;
    }
    const std::string text = {static_cast<char>(0xe0U | point >> 12U),
                              static_cast<char>(0x80U | (point >> 6U & 0x3fU)),
                              static_cast<char>(0x80U | (point & 0x3fU))};
    const auto shown = escaped(text);
    if (shown != text) {
      REQUIRE(shown == fmt::format("\\u{:04x}", point));
    }
  }
}

TEST_CASE("`status` escapes names of devices and neighbours") {
  lb::agent::Status status;
  status.others = "cilium at pod\x1b[31m\xe2\x80\xae";
  constexpr std::string_view packets = "xdp on pod\x1b[2J\nNode     another";
  std::ranges::copy(packets, status.node.packets);
  const auto shown = show_status(status, lb::agent::Output::table);
  CHECK(shown.find("cilium at pod\\x1b[31m\\u202e\n") != std::string::npos);
  CHECK(shown.find("xdp on pod\\x1b[2J\\nNode     another\n") != std::string::npos);
  const auto json = show_status(status, lb::agent::Output::json);
  CHECK(json.find(R"(cilium at pod\\x1b[31m\\u202e")") != std::string::npos);
}

}  // namespace
