// SPDX-License-Identifier: Apache-2.0
// The outermost level of a JSON list: anything but an object is an error, and nothing after it is reported.
#include "k8s/watch/transport_body.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

using namespace lb::k8s;

namespace {

class Items final : public BodySink {
 public:
  void list_meta(ListMeta /*meta*/) override {}
  ReadControl item(std::string_view object) override {
    text += std::string(object) + ";";
    return ReadControl::proceed;
  }
  ReadControl event(EventType /*type*/, std::string_view /*object*/) override { return ReadControl::stop; }

  std::string text;
};

}  // namespace

TEST_CASE("k8s body: names of a JSON list's members are strings") {
  struct Row {
    const char* text;
    const char* items;
    BodyReader::State state;
    bool whole;
  };
  using enum BodyReader::State;
  const Row rows[] = {
      {R"({"a":1,"items":[{}]})", "{};", good, true},
      {R"({"a":1,items:[{}]})", "", broken, false},
      {R"({"items":[{}],a":1})", "{};", broken, false},
      {R"({"items":[{}],{}:1})", "{};", broken, false},
      {R"({1:[{}]})", "", broken, false},
      {R"({"items":[{}],})", "{};", broken, false},
  };
  const auto encoding = json_encoding();
  for (const auto& row : rows) {
    CAPTURE(row.text);
    const auto reader = encoding->list_reader();
    Items items;
    CHECK(reader->feed(row.text, items) == row.state);
    CHECK(reader->whole() == row.whole);
    CHECK(items.text == row.items);
  }
}
