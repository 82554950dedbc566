// SPDX-License-Identifier: Apache-2.0
// Events on Services: what is posted, when, and how failures are handled (SEM-58, SEM-77).
#include "k8s/watch/events.hpp"

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

struct Lab : ApiStandIn {
  void tell(const std::string& name, const std::string& reason = "R", const std::string& uid = "u") {
    poster.post(
        {.object = {"default", name}, .reason = reason, .message = "the \"port\" is taken", .uid = uid});
  }

  std::vector<std::string> failures;
  EventPoster poster{runtime(),
                     [] { return std::chrono::system_clock::time_point(std::chrono::seconds(1767323045)); },
                     "node-a", [this](std::string text) { failures.push_back(std::move(text)); }};
};

}  // namespace

TEST_CASE("SEM-58: an event says what happened to which Service, and who says so") {
  Lab lab;
  lab.tell("web", "FailedToStartServiceHealthcheck");
  REQUIRE(lab.requests.size() == 1);
  CHECK(lab.requests[0].target == "/api/v1/namespaces/default/events");
  CHECK(
      lab.requests[0].body ==
      R"({"kind":"Event","apiVersion":"v1","metadata":{"generateName":"web.","namespace":"default"},)"
      R"("involvedObject":{"kind":"Service","apiVersion":"v1","namespace":"default","name":"web","uid":"u"},)"
      R"("type":"Warning","reason":"FailedToStartServiceHealthcheck","action":"Listen",)"
      R"("message":"the \"port\" is taken","source":{"component":"sluice","host":"node-a"},)"
      R"("reportingComponent":"sluice","reportingInstance":"node-a",)"
      R"("firstTimestamp":"2026-01-02T03:04:05Z","lastTimestamp":"2026-01-02T03:04:05Z","count":1})");
  lab.answer(201);
  CHECK(lab.failures.empty());
}

TEST_CASE("an event about the Node is where people look for it") {
  Lab lab;
  lab.poster.post({{"", "node-a"}, "FailedToStartProxierHealthcheck", "taken", EventSubject::node});
  REQUIRE(lab.requests.size() == 1);
  CHECK(lab.requests[0].target == "/api/v1/namespaces/default/events");
  CHECK_THAT(lab.requests[0].body,
             ContainsSubstring(R"("metadata":{"generateName":"node-a.","namespace":"default"},)"
                               R"("involvedObject":{"kind":"Node","apiVersion":"v1","name":"node-a",)"
                               R"("uid":"node-a"},)"));
}

TEST_CASE("SEM-150: an event of another type is another event") {
  Lab lab;
  Event event{{"", "node-a"}, "FailedToStartMetrics", "taken", EventSubject::node};
  event.severity = EventSeverity::normal;
  lab.poster.post(event);
  REQUIRE(lab.requests.size() == 1);
  CHECK_THAT(lab.requests[0].body, ContainsSubstring(R"("type":"Normal")"));
  lab.answer(201);
  event.severity = EventSeverity::warning;
  lab.poster.post(event);
  REQUIRE(lab.requests.size() == 2);
  CHECK_THAT(lab.requests[1].body, ContainsSubstring(R"("type":"Warning")"));
}

TEST_CASE("SEM-77: what all nodes complain about is one event on the Service, whoever posts it first") {
  const Complaint complaint{"Service shop/web", "", "asks for too much", "TooManyFrontends", "u-1"};
  const auto event = event_of(complaint);
  REQUIRE(event);
  Lab lab;
  lab.poster.post(*event);
  REQUIRE(lab.requests.size() == 1);
  CHECK(lab.requests[0].target == "/api/v1/namespaces/shop/events");
  CHECK(
      lab.requests[0].body ==
      R"({"kind":"Event","apiVersion":"v1","metadata":{"name":"web.e8671cebe31e6d8a","namespace":"shop"},)"
      R"("involvedObject":{"kind":"Service","apiVersion":"v1","namespace":"shop","name":"web","uid":"u-1"},)"
      R"("type":"Warning","reason":"TooManyFrontends","action":"Plan",)"
      R"("message":"asks for too much","source":{"component":"sluice","host":"node-a"},)"
      R"("reportingComponent":"sluice","reportingInstance":"node-a",)"
      R"("firstTimestamp":"2026-01-02T03:04:05Z","lastTimestamp":"2026-01-02T03:04:05Z","count":1})");
  lab.answer(409);
  CHECK(lab.failures.empty());
  auto other = *event;
  other.message = "asks for more";
  other.object.name = "web2";
  lab.poster.post(other);
  CHECK(lab.requests[1].body.find("web2.") != std::string::npos);
}

TEST_CASE("SEM-77: that a problem is over is an event of type Normal") {
  const auto event = event_of(
      {"Service shop/web", "", "is served again", "FrontendsServedAgain", "u-1", ComplaintType::recovery});
  REQUIRE(event);
  CHECK(event->severity == EventSeverity::normal);
}

TEST_CASE("SEM-77: complaints that are no Service's, or for the log alone, are no events") {
  CHECK_FALSE(event_of({"Service shop/web", "", "asks for too much"}));
  CHECK_FALSE(event_of({"Node a", "", "has no name", "Nameless"}));
  CHECK_FALSE(event_of({"", "web.yaml:3", "is not valid YAML", "Unreadable"}));
}

TEST_CASE("SEM-58: the same event is reported once in ten minutes, and one at a time") {
  Lab lab;
  lab.tell("web");
  lab.tell("web");
  lab.tell("dns");
  CHECK(lab.requests.size() == 1);
  lab.answer(201);
  CHECK(lab.requests.size() == 2);
  lab.answer(201);
  CHECK(lab.requests.size() == 2);
  lab.now += EventPoster::pause - Time(1);
  lab.tell("web");
  CHECK(lab.requests.size() == 2);
  lab.now += Time(1);
  lab.tell("web");
  CHECK(lab.requests.size() == 3);
}

TEST_CASE("SEM-77: a Service that is made anew has Events of its own") {
  Lab lab;
  lab.tell("web", "R", "first");
  lab.tell("web", "R", "second");
  lab.tell("web", "R", "second");
  lab.answer(201);
  lab.answer(201);
  REQUIRE(lab.requests.size() == 2);
  CHECK_THAT(lab.requests[0].body, ContainsSubstring(R"("name":"web","uid":"first"},)"));
  CHECK_THAT(lab.requests[1].body, ContainsSubstring(R"("name":"web","uid":"second"},)"));
  const auto name_of = [](const std::string& uid) {
    Lab other;
    other.poster.post(*event_of({"Service shop/web", "", "asks for too much", "TooManyFrontends", uid}));
    const auto& body = other.requests.at(0).body;
    return body.substr(body.find(R"("metadata":)"), 60);
  };
  CHECK(name_of("first") == name_of("first"));
  CHECK(name_of("first") != name_of("second"));
}

TEST_CASE("SEM-77: an Event about a Service whose UID is unknown has none") {
  Lab lab;
  lab.tell("web", "R", "");
  CHECK_THAT(lab.requests.at(0).body, ContainsSubstring(R"("name":"web"},)"));
}

TEST_CASE("SEM-58: a thousand events wait for no server, and are not kept") {
  Lab lab;
  for (int i = 0; i < 1000; ++i) {
    lab.tell(fmt::format("web-{}", i));
  }
  for (std::size_t i = 0; i <= EventPoster::max_waiting; ++i) {
    lab.answer(201);
  }
  CHECK(lab.requests.size() == EventPoster::max_waiting + 1);
  CHECK(lab.reader == nullptr);
}

TEST_CASE("SEM-58: an event that fails is not reported again, and only the first failure is named") {
  Lab lab;
  lab.tell("a");
  lab.tell("b");
  lab.tell("c");
  lab.tell("d");
  lab.answer(403);
  lab.answer(0, {}, End::unreachable);
  lab.ring();  // timeout without a reply
  CHECK(lab.requests.size() == 4);
  CHECK(lab.failures ==
        std::vector<std::string>{
            "an event could not be posted to the API: https://server: answer 403, the right to "
            "create events is missing; k8s/deploy/account.yaml grants it"});
  lab.answer(201);
  lab.tell("e");
  lab.answer(500);
  CHECK(lab.failures.size() == 2);
  lab.ring();  // the alarm of a request whose reply has come
  CHECK(lab.requests.size() == 5);
}

TEST_CASE("SEM-58: an event is a POST on the wire") {
  boost::asio::io_context context;
  std::string body;
  Server server(context, {}, [](const Asked&) { return Reply{{answer(201, "{}")}}; });
  ApiAccess access;
  access.servers.push_back(parse_api_server(fmt::format("http://127.0.0.1:{}", server.port())));
  ApiClient client(context, access, [](const std::string&) {});
  std::vector<std::string> failures;
  EventPoster poster(asio_runtime(context, client, 1), std::chrono::system_clock::now, "node-a",
                     [&](std::string text) { failures.push_back(std::move(text)); });
  poster.post({{"default", "web"}, "R", "message"});
  REQUIRE(run_until(context, [&] { return !server.asked().empty(); }));
  const auto& asked = server.asked().front();
  CHECK_THAT(asked.head, ContainsSubstring("POST /api/v1/namespaces/default/events HTTP/1.1\r\n"));
  CHECK_THAT(asked.head, ContainsSubstring("Content-Type: application/json\r\nContent-Length: "));
  CHECK(client.addresses() == std::vector<ServerAddress>{{*Address::parse("127.0.0.1"), server.port()}});
}
