// SPDX-License-Identifier: Apache-2.0
// The API as a source over real sockets: a small API server with every kind of fault.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api_source_lab.hpp"
#include "tests/unit/k8s/client/server.hpp"

using namespace lb::k8s;
using namespace lb::k8s::testing;

namespace {

/// A small API server: Services by streaming list and watch; the other resources are empty.
struct Api {
  explicit Api(boost::asio::io_context& context, ServerOptions options = {})
      : server(context, std::move(options), [this](const Asked& asked) { return handle(asked); }) {}

  Reply handle(const Asked& asked) {
    if (misbehave) {
      if (auto reply = misbehave(asked)) {
        return std::move(*reply);
      }
    }
    const bool services = asked.target.starts_with("/api/v1/services");
    if (has(asked.target, "sendInitialEvents")) {
      return {{stream_head() + chunk((services ? events : "") + end_mark(version))}, After::silence};
    }
    if (has(asked.target, "limit=")) {
      const auto body = fmt::format(R"({{"kind":"List","metadata":{{"resourceVersion":"{}"}},"items":[{}]}})",
                                    version, services && !has(asked.target, "limit=1&") ? items : "");
      return {{answer(200, body)}};
    }
    return {{stream_head()}, After::silence};
  }

  int version = 10;
  std::string events = event("ADDED", service("web", 5));
  std::string items = service("web", 5);
  std::function<std::optional<Reply>(const Asked&)> misbehave;
  Server server;
};

struct RealLab {
  boost::asio::io_context context{1};
  RecordingSink sink;
  std::vector<std::string> failures;
  std::unique_ptr<ApiClient> client;
  std::unique_ptr<ApiSource> source;
  std::string all;
  Timeouts timeouts = [] {
    Timeouts quick;
    quick.first_pause = Time(20);
    quick.unreachable = quick.refused = quick.overloaded = Time(100);
    return quick;
  }();

  void start(const std::vector<const Server*>& servers) {
    ApiAccess access;
    for (const auto* server : servers) {
      access.servers.push_back(parse_api_server(fmt::format("http://127.0.0.1:{}", server->port())));
    }
    start(std::move(access));
  }
  void start(ApiAccess access) {
    client = std::make_unique<ApiClient>(context, std::move(access),
                                         [this](std::string text) { failures.push_back(std::move(text)); });
    source = std::make_unique<ApiSource>(
        ApiScope{.node = "n1", .service_proxy_name = "", .slice_selector = "", .encoding = ApiEncoding::json},
        asio_runtime(context, *client, 7), sink,
        [this](std::string text) { failures.push_back(std::move(text)); }, timeouts);
    source->start();
  }
  bool comes(const std::string& line) {
    return run_until(context, [&] {
      for (const auto& each : sink.take()) {
        all += each + ";";
      }
      return has(all, line);
    });
  }
};

}  // namespace

TEST_CASE("k8s source over sockets: streaming lists, then watches") {
  RealLab lab;
  Api api(lab.context);
  lab.start({&api.server});
  CHECK(lab.comes("synced"));
  CHECK(has(lab.all, "+Service a/web 10.0.0.1 80"));
  api.server.push(chunk(event("MODIFIED", service("web", 11, "10.0.0.2"))));
  CHECK(lab.comes("+Service a/web 10.0.0.2 80;flush"));
  CHECK(lab.failures.empty());
}

TEST_CASE("REL-32 over sockets: streaming lists that are refused, by status and in the stream") {
  for (const int code : {400, 422, 0}) {
    CAPTURE(code);
    RealLab lab;
    Api api(lab.context);
    api.misbehave = [code](const Asked& asked) -> std::optional<Reply> {
      if (!has(asked.target, "sendInitialEvents")) {
        return std::nullopt;
      }
      if (code != 0) {
        return Reply{{answer(code, status(code))}};
      }
      return Reply{{stream_head() + chunk(event("ERROR", status(500))) + last_chunk}};
    };
    lab.start({&api.server});
    CHECK(lab.comes("synced"));
    CHECK(has(lab.all, "+Service a/web 10.0.0.1 80"));
    const auto before = api.server.asked().size();
    CHECK(run_until(lab.context, [&] { return api.server.asked().size() >= before; }));
  }
}

TEST_CASE("REL-33, REL-34, REL-77 over sockets: failures of every kind, and the next change still comes") {
  struct Row {
    const char* name;
    std::vector<Reply> replies;  ///< replies to the requests after the first cut, in order
  };
  const Row rows[] = {
      {"cut in the middle of an object",
       {{{stream_head() + chunk(R"({"type":"ADDED","object":{"kind)")}, After::close}}},
      {"a chunk that ends too early", {{{stream_head() + "ff\r\n{\"type\""}, After::close}}},
      {"reset", {{{}, After::reset}, {{stream_head()}, After::reset}}},
      {"401", {{{answer(401, status(401))}}, {{answer(401, status(401))}}}},
      {"403", {{{answer(403, status(403))}}}},
      {"404", {{{answer(404, "404 page not found")}}}},
      {"410", {{{answer(410, status(410))}}}},
      {"410 as an event", {{{stream_head() + chunk(event("ERROR", status(410))) + last_chunk}}}},
      {"429", {{{answer(429, status(429), "Retry-After: 0\r\n")}}}},
      {"500, 502, 503, 504",
       {{{answer(500, status(500))}}, {{answer(502, "<html>")}}, {{answer(503, "")}}, {{answer(504, "")}}}},
      {"a redirect", {{{answer(302, "", "Location: http://192.0.2.1/\r\n")}}}},
      {"another type", {{{"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi"}}}},
      {"no HTTP", {{{"SSH-2.0-x\r\n\r\n"}, After::close}}},
      {"an empty 200", {{{answer(200, "")}}}},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    RealLab lab;
    Api api(lab.context);
    lab.start({&api.server});
    REQUIRE(lab.comes("synced"));
    auto replies = row.replies;
    api.misbehave = [&](const Asked& asked) -> std::optional<Reply> {
      if (!asked.target.starts_with("/api/v1/services") || replies.empty()) {
        return std::nullopt;
      }
      auto reply = replies.front();
      replies.erase(replies.begin());
      return reply;
    };
    const auto before = api.server.asked().size();
    api.version = 20;
    api.events = event("ADDED", service("web", 20, "10.0.0.3"));
    api.items = service("web", 20, "10.0.0.3");
    api.server.cut();
    REQUIRE(run_until(lab.context, [&] { return replies.empty(); }));
    // Once the source watches or has listed again, it reports the change.
    const auto pushed = [&] {
      api.server.push(chunk(event("MODIFIED", service("web", 21, "10.0.0.3"))));
      for (const auto& each : lab.sink.take()) {
        lab.all += each + ";";
      }
      return has(lab.all, "+Service a/web 10.0.0.3 80");
    };
    CHECK(run_until(lab.context, pushed));
    CHECK_FALSE(has(lab.all, "-Service a/web"));
    CHECK(api.server.asked().size() - before < 60);  // no hot loop
  }
}

TEST_CASE("k8s source over sockets: another server goes on where the first was") {
  RealLab lab;
  auto first = std::make_unique<Api>(lab.context);
  Api second(lab.context);
  lab.start({&first->server, &second.server});
  REQUIRE(lab.comes("synced"));
  CHECK(second.server.connections() == 0);
  first.reset();
  CHECK(run_until(lab.context, [&] {
    return std::ranges::any_of(second.server.asked(), [](const Asked& asked) {
      return asked.target.starts_with("/api/v1/services") && has(asked.target, "resourceVersion=10");
    });
  }));
  CHECK(run_until(lab.context, [&] {
    second.server.push(chunk(event("MODIFIED", service("web", 11, "10.0.0.2"))));
    return lab.comes("+Service a/web 10.0.0.2 80;flush");
  }));
  CHECK_FALSE(has(lab.all, "-Service"));
}
