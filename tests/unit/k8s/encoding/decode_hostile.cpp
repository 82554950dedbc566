// SPDX-License-Identifier: Apache-2.0
// Errors that reject an object, hostile input, positions of problems (REL-36; choice J).
#include <filesystem>
#include <random>

#include "decode.hpp"
#include "tests/lib/content_of.hpp"
#include "tests/lib/paths.hpp"
#include "tests/lib/seed.hpp"

using namespace lb::k8s;
using namespace lb::k8s::testing;

TEST_CASE("k8s decode: what refuses an object, or makes it another's") {
  struct Row {
    std::string json;
    DecodeResult result;
    const char* problem;
  };
  const Row rows[] = {
      {service_json(R"("ports":"x")"), DecodeResult::refused, "/spec/ports is a string where a list"},
      {service_json(R"("clusterIP":7)"), DecodeResult::refused, "/spec/clusterIP is a number"},
      {service_json(R"("loadBalancerSourceRanges":"10.0.0.0/8")"), DecodeResult::refused,
       "where a list is expected"},
      {service_json(R"("clusterIP":"10.0.0.1","clusterIP":"10.0.0.2")"), DecodeResult::refused,
       "is given twice"},
      {service_json("", R"(,"spec":{})"), DecodeResult::refused, "/spec is given twice"},
      {service_json("", R"(,"status":[])"), DecodeResult::refused, "/status is a list where an object"},
      {service_json("", "", R"(,"labels":{"a":1})"), DecodeResult::refused,
       "/metadata/labels \"a\": is a number"},
      {R"({"apiVersion":"v1","kind":"Service"})", DecodeResult::refused, "/metadata/name is missing"},
      {R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"a"}})", DecodeResult::refused,
       "is not a namespace"},
      {R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"a/b","namespace":"x"}})",
       DecodeResult::refused, "\"a/b\" is not an object name"},
      {R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"a\nb","namespace":"x"}})",
       DecodeResult::refused, "\"a?b\" is not an object name"},
      {R"({"apiVersion":"v1","kind":"Service","metadata":[]})", DecodeResult::refused, "/metadata is a list"},
      {R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}})", DecodeResult::foreign, "kind \"Pod\""},
      {R"({"apiVersion":"apps/v1","kind":"Service"})", DecodeResult::foreign, "\"apps/v1\""},
      {R"({"apiVersion":"discovery.k8s.io/v2","kind":"EndpointSlice"})", DecodeResult::foreign, "v2"},
      {R"({"apiVersion":7,"kind":"Service"})", DecodeResult::refused, "/apiVersion is a number"},
      {R"({})", DecodeResult::foreign, "states no kind"},
      {R"([])", DecodeResult::refused, "is a list where an object"},
      {R"("x")", DecodeResult::refused, "is a string where an object"},
      {R"({"a":)", DecodeResult::refused, "is not valid JSON"},
      {R"({"a":[1,2,}]})", DecodeResult::refused, "is not valid JSON"},
      {R"({} {})", DecodeResult::refused, "is not valid JSON"},
      {"", DecodeResult::refused, "is empty"},
      {"{\"a\":\"\xff\"}", DecodeResult::refused, "is not valid JSON"},
      {std::string(2000, '['), DecodeResult::refused, "is not valid JSON"},
      {R"({"x":)" + std::string(2000, '[') + std::string(2000, ']') + "}", DecodeResult::refused,
       "more than 100 levels"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.json.substr(0, 200));
    const auto decoded = decode(row.json);
    CHECK(decoded.result == row.result);
    CHECK_FALSE(decoded.object);
    CAPTURE(problems_of(decoded));
    CHECK(problems_of(decoded).find(row.problem) != std::string::npos);
  }
}

TEST_CASE("k8s decode: a list's items take the list's kind") {
  CHECK(item_kind("ServiceList") == Kind::service);
  CHECK(item_kind("EndpointSliceList") == Kind::slice);
  CHECK(item_kind("NodeList") == Kind::node);
  CHECK(item_kind("List") == Kind::other);
  const auto* item = R"({"metadata":{"name":"a","namespace":"b"},"spec":{"clusterIP":"10.0.0.1"}})";
  CHECK(decode(item, Origin::api_server, Kind::service).result == DecodeResult::object);
  CHECK(decode(item, Origin::api_server, Kind::other).result == DecodeResult::foreign);
}

TEST_CASE("REL-36 an object with a thousand problems says eight and counts the rest") {
  std::string endpoints;
  for (int i = 0; i < 1000; ++i) {
    endpoints += (i > 0 ? "," : "") + std::string(R"({"addresses":["x"]})");
  }
  const auto decoded = decode(endpoints_json(endpoints));
  CHECK(decoded.problems.size() == Problems::kept + 1);
  CHECK(decoded.problems.back().reason == "992 more problems like these");
}

TEST_CASE("REL-36 problems are printable and bounded whatever the object says") {
  const auto decoded =
      decode(service_json(R"("clusterIP":"10.0.0.1","type":"\u001b[31m)" + std::string(10000, 'x') + "\""));
  REQUIRE(decoded.problems.size() == 1);
  CHECK(decoded.problems[0].reason.size() < 400);
  CHECK(decoded.problems[0].reason.find('\x1b') == std::string::npos);
}

TEST_CASE("k8s decode: broken JSON says where") {
  const auto decoded = decode("{\"a\": 1,\n\"b\": tru}");
  REQUIRE(decoded.broken_at);
  CHECK(*decoded.broken_at == 14);
}

TEST_CASE("k8s decode: one decoder, many objects, no memory of the last one") {
  const auto decoder = json_decoder(Origin::api_server);
  const auto first = decoder->decode(
      endpoints_json(R"({"addresses":["10.0.0.1"],"zone":"z","hints":{"forZones":[{"name":"z"}]}})"),
      Kind::other);
  const auto bad = decoder->decode("{", Kind::other);
  const auto second = decoder->decode(endpoints_json(R"({"addresses":["10.0.0.2"]})"), Kind::other);
  CHECK(slice_of(first).endpoints.at(0).zone == "z");
  CHECK(bad.result == DecodeResult::refused);
  CHECK(slice_of(second).endpoints.at(0).zone.empty());
  CHECK(slice_of(second).endpoints.at(0).hint_zones.empty());
  CHECK(second.problems.empty());
}

TEST_CASE("REL-36 the hostile corpus is answered, file by file") {
  const std::filesystem::path corpus = std::filesystem::path(lb::test::source_path("tests/corpus/json"));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    CAPTURE(entry.path().filename().string());
    const auto decoded = decode(lb::test::content_of(entry.path()));
    const bool good = entry.path().filename().string().starts_with("good-");
    CHECK((decoded.result == DecodeResult::object && decoded.problems.empty()) == good);
    CHECK(decoded.object.has_value() == (decoded.result == DecodeResult::object));
    ++files;
  }
  CHECK(files >= 20);
}

TEST_CASE("REL-36 any damage to a good object is answered") {
  const std::filesystem::path corpus = std::filesystem::path(lb::test::source_path("tests/corpus/json"));
  const auto seed = lb::test::seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto decoder = json_decoder(Origin::manifest);
  std::size_t objects = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    const auto good = lb::test::content_of(entry.path());
    if (good.empty() || good.size() > 65536) {
      continue;
    }
    for (int round = 0; round < 300; ++round) {
      auto text = good;
      for (int flips = 0; flips < 3; ++flips) {
        text[random() % text.size()] = "{}[]\",:0x\\\xff"[random() % 11];
      }
      text.resize(text.size() - random() % 3 * (random() % text.size()) / 4);
      const auto decoded = decoder->decode(text, Kind::slice);
      REQUIRE(decoded.object.has_value() == (decoded.result == DecodeResult::object));
      REQUIRE((decoded.result == DecodeResult::object || decoded.result == DecodeResult::absent ||
               !decoded.problems.empty()));
      objects += decoded.object ? 1U : 0U;
    }
  }
  CHECK(objects > 0);
}
