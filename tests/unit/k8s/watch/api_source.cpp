// SPDX-License-Identifier: Apache-2.0
// The API as a source: its requests, when it is in sync, what it reports in which order; with the test's own
// connections, alarms and clock.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <string>
#include <vector>

#include "api_source_lab.hpp"

using namespace lb::k8s;
using namespace lb::k8s::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("SEM-1, SEM-2, SEM-24: what is asked for") {
  const auto plain = api_resources({.node = "n1", .service_proxy_name = "", .slice_selector = ""});
  REQUIRE(plain.size() == 4);
  CHECK(plain[0].path == "/api/v1/services");
  CHECK(plain[0].label_selector == "!service.kubernetes.io/service-proxy-name");
  CHECK(plain[0].field_selector == "spec.clusterIP!=None");
  CHECK(plain[1].path == "/apis/discovery.k8s.io/v1/endpointslices");
  CHECK(plain[1].label_selector == "!service.kubernetes.io/headless");
  CHECK(plain[2].path == "/api/v1/nodes");
  CHECK(plain[2].field_selector == "metadata.name=n1");
  CHECK(plain[3].path == "/apis/networking.k8s.io/v1/servicecidrs");
  const auto chosen = api_resources({.node = "n1", .service_proxy_name = "mesh", .slice_selector = "zone=a"});
  CHECK(chosen[0].label_selector == "service.kubernetes.io/service-proxy-name=mesh");
  CHECK(chosen[1].label_selector == "!service.kubernetes.io/headless,zone=a");
  const Lab lab;
  CHECK(lab.connections.size() == 4);
  CHECK(
      has(lab.connections[0]->request.target, "labelSelector=%21service.kubernetes.io%2Fservice-proxy-name"));
}

TEST_CASE("SEM-69, REL-78: in sync when all required lists are whole, in any order, and by no timer") {
  std::array<std::size_t, 3> order = {0, 1, 2};
  do {
    Lab lab;
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK_FALSE(has(lab.reported(), "synced"));
      lab.pass(Time(20'000));
      auto& connection = *lab.connections[order[i]];
      connection.head();
      connection.body(order[i] == 0 ? event("ADDED", service("web", 5)) : "");
      connection.body(end_mark(9));
    }
    CHECK(has(lab.reported(), "synced"));
    CHECK(lab.sink.take_complaints().empty());
  } while (std::ranges::next_permutation(order).found);
}

TEST_CASE("REL-36: a slice of ten megabytes is taken like any other, and one beside it too") {
  Lab lab;
  lab.sync();
  std::string huge = slice("huge", 11, "10.1.0.1");
  const std::string mark = R"("endpoints":[)";
  std::string endpoints;
  for (unsigned i = 0; endpoints.size() < (std::size_t{10} << 20U); ++i) {
    endpoints +=
        fmt::format(R"({{"addresses":["10.{}.{}.{}"]}},)", i >> 16U & 0xffU, i >> 8U & 0xffU, i & 0xffU);
  }
  huge.insert(huge.find(mark) + mark.size(), endpoints);
  const auto bytes = event("ADDED", huge) + event("ADDED", slice("web-1", 12, "10.1.0.2"));
  for (std::size_t at = 0; at < bytes.size(); at += 32768) {
    lab.slices().body(bytes.substr(at, 32768));
  }
  const auto reported = lab.reported();
  CHECK(reported.starts_with("+EndpointSlice a/huge of web 10."));
  CHECK(reported.size() > (std::size_t{3} << 20U));
  CHECK(has(reported, "+EndpointSlice a/web-1 of web 10.1.0.2"));
  CHECK(lab.failures.empty());
  lab.slices().body(event("DELETED", slice("huge", 13, "10.1.0.1")));
  CHECK(has(lab.reported(), "-EndpointSlice a/huge"));
}

TEST_CASE("REL-78: one list that is held for ten minutes holds all back, whatever the others do") {
  Lab lab;
  for (auto* connection : {&lab.services(), &lab.nodes(), &lab.cidrs()}) {
    connection->head();
    connection->body(end_mark(9));
  }
  lab.services().body(event("ADDED", service("web", 12)));
  for (int i = 0; i < 20; ++i) {
    lab.pass(Time(30'000));
    if (lab.slices().reader != nullptr) {
      lab.slices().head(503);
      lab.slices().end(End::complete);
    }
  }
  const auto reported = lab.reported();
  CHECK(has(reported, "+Service a/web"));
  CHECK_FALSE(has(reported, "synced"));
  CHECK_FALSE(has(reported, "flush"));
}

TEST_CASE("SEM-17: an API without ServiceCIDRs is asked now and then, and holds nothing back") {
  Lab lab;
  lab.cidrs().head(404);
  lab.cidrs().body(status(404));
  lab.cidrs().end(End::complete);
  for (auto* connection : {&lab.services(), &lab.slices(), &lab.nodes()}) {
    connection->head();
    connection->body(end_mark(9));
  }
  CHECK(has(lab.reported(), "synced"));
  lab.pass(Time(30'000));
  CHECK(lab.cidrs().asked == 1);
  lab.pass(Time(60'000));
  REQUIRE(lab.cidrs().asked == 2);  // as after an upgrade of the server
  lab.cidrs().head();
  lab.cidrs().body(
      event("ADDED",
            R"({"kind":"ServiceCIDR","apiVersion":"networking.k8s.io/v1","metadata":{"name":"extra",)"
            R"("resourceVersion":"12"},"spec":{"cidrs":["10.96.0.0/12"]}})") +
      end_mark(12));
  CHECK(lab.reported() == "+ServiceCIDR extra 10.96.0.0/12;flush");
  CHECK(lab.failures.empty());
}

TEST_CASE("REL-35: deletions come before additions of the same piece, an object's last state alone") {
  Lab lab;
  lab.sync(event("ADDED", service("old", 5)) + event("ADDED", service("z", 6)));
  lab.services().body(event("ADDED", service("new", 11)) + event("MODIFIED", service("z", 12, "10.0.0.7")) +
                      event("DELETED", service("old", 13)) + event("MODIFIED", service("z", 14, "10.0.0.8")) +
                      event("ADDED", service("brief", 15)) + event("DELETED", service("brief", 16)));
  CHECK(lab.reported() ==
        "-Service a/brief;-Service a/old;+Service a/new 10.0.0.1 80;+Service a/z 10.0.0.8 80;flush");
}

TEST_CASE("REL-35: an endpoint that moves between slices of one piece is reported in one burst") {
  Lab lab;
  lab.sync();
  lab.slices().body(event("ADDED", slice("one", 11, "10.1.0.1")));
  CHECK(lab.reported() == "+EndpointSlice a/one of web 10.1.0.1;flush");
  lab.slices().body(event("ADDED", slice("two", 12, "10.1.0.1")) +
                    event("MODIFIED", slice("one", 13, "10.1.0.2")));
  CHECK(lab.reported() == "+EndpointSlice a/one of web 10.1.0.2;+EndpointSlice a/two of web 10.1.0.1;flush");
}

TEST_CASE("REL-31: a relist reports the differences in one burst, and is not flushed before its end") {
  Lab lab;
  lab.sync(event("ADDED", service("gone", 5)) + event("ADDED", service("kept", 6)));
  lab.services().body(event("ERROR", status(410)));
  lab.pass(Time(1'000));
  REQUIRE(has(lab.services().request.target, "sendInitialEvents"));
  lab.services().head();
  lab.services().body(event("ADDED", service("kept", 6)) + event("ADDED", service("new", 20)));
  CHECK_FALSE(has(lab.reported(), "flush"));
  lab.services().body(end_mark(21));
  CHECK(lab.reported() == "-Service a/gone;flush");
}

TEST_CASE(
    "REL-30, SEM-72: nothing is forgotten while no server answers, and the first change comes after its "
    "return") {
  Lab lab;
  lab.sync(event("ADDED", service("web", 5)));
  for (auto& connection : lab.connections) {
    connection->end(End::truncated);
  }
  Time longest{0};
  for (int i = 0; i < 300; ++i) {
    const auto before = lab.now;
    while (lab.services().reader == nullptr) {
      lab.pass(Time(50));
    }
    longest = std::max(longest, lab.now - before);
    for (auto& connection : lab.connections) {
      if (connection->reader != nullptr) {
        connection->end(End::unreachable);
      }
    }
  }
  CHECK(lab.reported().empty());
  CHECK(longest <= Time(1'500));
  while (lab.services().reader == nullptr) {
    lab.pass(Time(50));
  }
  lab.services().head();
  lab.services().body(fmt::format(R"({{"metadata":{{"resourceVersion":"12"}},"items":[]}})"));
  lab.services().end(End::complete);
  REQUIRE(has(lab.services().request.target, "resourceVersion=10"));
  lab.services().head();
  lab.services().body(event("MODIFIED", service("web", 12, "10.0.0.9")));
  CHECK(lab.reported() == "+Service a/web 10.0.0.9 80;flush");
  // Few enough for a log: at most four messages in half a minute.
  CHECK(lab.failures.size() <= 4 * (static_cast<std::size_t>(lab.now / Time(30'000)) + 1));
  CHECK_THAT(lab.failures.at(0), ContainsSubstring("https://server"));
}

TEST_CASE("REL-77: a refusal for which the log had no room is reported as soon as it has") {
  Lab lab;
  lab.sync();
  for (auto& connection : lab.connections) {
    connection->end(End::truncated);
  }
  REQUIRE(lab.failures.size() == 4);
  const auto refusals = [&lab] {
    return std::ranges::count_if(lab.failures, [](const std::string& text) {
      return text.starts_with("/api/v1/services: the server answers 403");
    });
  };
  REQUIRE(refusals() == 0);
  // Other resources' requests, which get no response, have their own messages, and pauses are random.
  for (int second = 0; second < 300; ++second) {
    lab.pass(Time(1'000));
    if (lab.services().reader != nullptr) {
      lab.services().head(403);
      lab.services().end(End::complete);
    }
  }
  CHECK(refusals() == 1);
}

TEST_CASE("REL-33: a watch that is silent is cancelled and resumed on a new connection") {
  Lab lab;
  lab.sync();
  lab.pass(Time(60'000));
  lab.services().body(event("ADDED", service("web", 11)));
  lab.pass(Timeouts{}.watch - Time(1'000));
  CHECK(lab.services().asked == 1);
  lab.pass(Time(3'000));
  CHECK(lab.services().asked == 2);
  CHECK(lab.services().request.connection == Connection::fresh);
  const auto of_services = [&lab] {
    return std::ranges::count_if(
        lab.failures, [](const std::string& text) { return text.starts_with("/api/v1/services: "); });
  };
  CHECK(of_services() == 0);
  CHECK(lab.source->stats()[0].failures == 0);
  CHECK(lab.source->stats()[0].stream.quiet == 1);
  lab.pass(Timeouts{}.head + Time(3'000));  // no response comes
  CHECK(of_services() == 1);
  CHECK(lab.source->stats()[0].failures == 1);
}

TEST_CASE("SEM-88: updates that come together are reported as one with the causes of all") {
  const auto caused = [](int version, const char* second) {
    auto text = slice("one", version, "10.1.0.1");
    const auto place = text.find(R"("labels")");
    return text.insert(
        place,
        fmt::format(
            R"("annotations":{{"endpoints.kubernetes.io/last-change-trigger-time":"1970-01-01T00:00:{}Z"}},)",
            second));
  };
  Lab lab;
  lab.sync();
  lab.slices().body(event("ADDED", caused(11, "01")) + event("MODIFIED", caused(12, "02")));
  CHECK(lab.sink.last_triggers == std::vector<std::int64_t>{1'000'000'000, 2'000'000'000});
  lab.slices().body(event("MODIFIED", caused(13, "03")));
  CHECK(lab.sink.last_triggers == std::vector<std::int64_t>{3'000'000'000});
  lab.slices().body(event("MODIFIED", caused(14, "04")) + event("DELETED", caused(15, "05")) +
                    event("ADDED", caused(16, "06")));
  CHECK(lab.sink.last_triggers == std::vector<std::int64_t>{6'000'000'000});
}

TEST_CASE("k8s source: bytes are reported before what they bring") {
  Lab lab;
  lab.sync();
  const auto before = lab.sink.arrivals;
  const auto bytes = event("ADDED", service("web", 11));
  lab.services().body(bytes.substr(0, 40));
  CHECK(lab.sink.arrivals == before + 1);
  lab.services().body(bytes.substr(40));
  CHECK(lab.sink.arrivals == before + 2);
}

TEST_CASE("SEM-73: the Node is reported when it changes, and when it is gone") {
  Lab lab;
  lab.sync();
  lab.nodes().body(event("ADDED", node(11)));
  CHECK(lab.reported() == "+Node n1;flush");
  lab.nodes().body(event("DELETED", node(12)));
  CHECK(lab.reported() == "-Node n1;flush");
}

TEST_CASE("REL-36: an object that cannot be read is a complaint that names it, and changes nothing else") {
  Lab lab;
  lab.sync(event("ADDED", service("web", 5)));
  lab.services().body(
      event(
          "MODIFIED",
          R"({"kind":"Service","apiVersion":"v1","metadata":{"name":"web","namespace":"a","resourceVersion":"11"},"spec":[]})") +
      event("ADDED", service("other", 12)));
  CHECK(lab.reported() == "+Service a/other 10.0.0.1 80;flush");
  const auto complaints = lab.sink.take_complaints();
  REQUIRE(complaints.size() == 1);
  CHECK_THAT(complaints[0], ContainsSubstring("Service a/web"));
  CHECK(lab.source->stats()[0].problems == 1);
}

TEST_CASE("k8s source: stats") {
  Lab lab;
  lab.sync(event("ADDED", service("web", 5)));
  lab.services().end(End::truncated);
  lab.pass(Time(2'000));
  lab.services().head(500);
  lab.services().end(End::complete);
  const auto stats = lab.source->stats();
  REQUIRE(stats.size() == 4);
  CHECK(stats[0].resource == "services");
  CHECK(stats[0].lists == 1);
  CHECK(stats[0].requests == 2);
  CHECK(stats[0].failures == 2);
  CHECK(stats[0].objects == 1);
  CHECK(stats[0].bytes > 300);
  CHECK(stats[1].silence == Time(2'000));
}
