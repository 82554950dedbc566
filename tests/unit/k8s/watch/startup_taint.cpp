// SPDX-License-Identifier: Apache-2.0
// The start-up taint: which patch removes it, and how failures are handled (SEM-63).
#include "k8s/watch/startup_taint.hpp"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

#include "k8s/client/http_client.hpp"
#include "k8s/watch/api_runtime.hpp"
#include "tests/unit/k8s/client/server.hpp"
#include "tests/unit/k8s/watch/api_stand_in.hpp"

using namespace lb::k8s;
using namespace lb::k8s::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::string_view tainted =
    R"({"kind":"Node","spec":{"taints":[{"key":"a/b","effect":"NoSchedule"},{"key":"other","effect":"NoExecute"},)"
    R"({"key":"a/b","effect":"NoExecute","value":"x"}]}})";

constexpr std::string_view patch =
    R"([{"op":"test","path":"/spec/taints/2/key","value":"a/b"},{"op":"remove","path":"/spec/taints/2"},)"
    R"({"op":"test","path":"/spec/taints/0/key","value":"a/b"},{"op":"remove","path":"/spec/taints/0"}])";

struct Lab : ApiStandIn {
  std::vector<std::string> done;
  std::vector<std::string> failures;
  StartupTaint taint{runtime(),
                     "node-a",
                     "a/b",
                     {[this](std::string text) { done.push_back(std::move(text)); },
                      [this](std::string text) { failures.push_back(std::move(text)); }}};
};

}  // namespace

TEST_CASE("SEM-63: the patch removes the taints with that key, of any effect, and no others") {
  CHECK(patch_without_taint(tainted, "a/b") == patch);
  CHECK(patch_without_taint(tainted, "b") == "");
  CHECK(patch_without_taint(R"({"spec":{}})", "a/b") == "");
  CHECK(patch_without_taint(R"({"spec":{"taints":[7,{"key":1}]}})", "a/b") == "");
  CHECK_FALSE(patch_without_taint("[]", "a/b").has_value());
  CHECK_FALSE(patch_without_taint("not JSON", "a/b").has_value());
}

TEST_CASE("SEM-63: the start-up taint is read, then removed, and that is said") {
  Lab lab;
  lab.taint.remove();
  REQUIRE(lab.requests.size() == 1);
  CHECK(lab.requests[0].target == "/api/v1/nodes/node-a");
  CHECK(lab.requests[0].body.empty());
  lab.answer(200, tainted);
  REQUIRE(lab.requests.size() == 2);
  CHECK(lab.requests[1].target == "/api/v1/nodes/node-a");
  CHECK(lab.requests[1].body == patch);
  CHECK(lab.requests[1].method == BodyMethod::json_patch);
  lab.answer(200);
  CHECK(lab.done == std::vector<std::string>{"removed the taint a/b from Node node-a"});
  lab.wait();
  CHECK(lab.requests.size() == 2);
  CHECK(lab.failures.empty());
}

TEST_CASE("SEM-63: a Node without the start-up taint is left alone") {
  Lab lab;
  lab.taint.remove();
  lab.answer(200, R"({"kind":"Node","spec":{}})");
  CHECK(lab.done == std::vector<std::string>{"Node node-a has no taint a/b"});
  lab.wait();
  CHECK(lab.requests.size() == 1);
}

TEST_CASE("SEM-63: the start-up taint is tried again until it is gone, and the first failure is named") {
  Lab lab;
  lab.taint.remove();
  lab.answer(0, "", End::unreachable);
  CHECK(lab.rings_at == lab.now + StartupTaint::min_pause);
  lab.wait();
  lab.wait();  // timeout without a reply
  CHECK(lab.reader == nullptr);
  CHECK(lab.rings_at == lab.now + 2 * StartupTaint::min_pause);
  lab.wait();
  lab.answer(200, tainted);
  lab.answer(422);  // another client has changed the taints meanwhile: read them again
  lab.wait();
  CHECK(lab.requests.back().body.empty());
  lab.answer(200, tainted);
  lab.answer(200);
  CHECK(lab.done.size() == 1);
  CHECK(lab.failures == std::vector<std::string>{
                            "cannot remove the taint a/b from Node node-a, and tries again: https://server"});
}

TEST_CASE("SEM-63: a missing right is named, and asked for less and less often") {
  Lab lab;
  lab.taint.remove();
  for (int i = 0; i < 10; ++i) {
    lab.answer(200, tainted);
    lab.answer(403);
    if (i == 9) {
      CHECK(lab.rings_at == lab.now + StartupTaint::max_pause);
    }
    lab.wait();
  }
  REQUIRE(lab.failures.size() == 1);
  CHECK_THAT(lab.failures[0], ContainsSubstring("answer 403, the right to get and patch nodes is missing"));
}

TEST_CASE("SEM-63: an answer that is no Node, or does not end, is a failure") {
  Lab lab;
  lab.taint.remove();
  lab.answer(200, "not JSON");
  lab.wait();
  REQUIRE(lab.reader->head({200, "application/json", std::nullopt}) == ReadControl::proceed);
  CHECK(lab.reader->body(std::string(StartupTaint::max_bytes, 'x')) == ReadControl::proceed);
  CHECK(lab.reader->body("x") == ReadControl::stop);
  std::exchange(lab.reader, nullptr)->end(End::stopped, "https://server");
  lab.wait();
  lab.answer(200, tainted);
  lab.answer(200);
  CHECK(lab.done.size() == 1);
}

TEST_CASE("SEM-63: the removal is a PATCH on the wire") {
  boost::asio::io_context context;
  Server server(context, {}, [](const Asked& asked) {
    return Reply{{answer(200, asked.head.starts_with("GET") ? std::string(tainted) : "{}")}};
  });
  ApiAccess access;
  access.servers.push_back(parse_api_server(fmt::format("http://127.0.0.1:{}", server.port())));
  ApiClient client(context, access, [](const std::string&) {});
  std::vector<std::string> done;
  StartupTaint taint(asio_runtime(context, client, 1), "node-a", "a/b",
                     {[&](std::string text) { done.push_back(std::move(text)); }, [](const std::string&) {}});
  taint.remove();
  REQUIRE(run_until(context, [&] { return !done.empty(); }));
  REQUIRE(server.asked().size() == 2);
  CHECK_THAT(server.asked().back().head, ContainsSubstring("PATCH /api/v1/nodes/node-a HTTP/1.1\r\n"));
  CHECK_THAT(server.asked().back().head, ContainsSubstring("Content-Type: application/json-patch+json\r\n"));
}
