// SPDX-License-Identifier: Apache-2.0
// The API as a source of other Nodes' labels: they are listed and watched only if some Service asks for them.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>
#include <vector>

#include "api_source_lab.hpp"
#include "k8s/watch/lingering_labels.hpp"

using namespace lb::k8s;
using namespace lb::k8s::testing;

namespace {

/// A source that keeps labels as an agent does, though not as long: until then no watch is silent for too
/// long.
struct KeepingLab : Lab {
  static constexpr Time stay{60'000};

  KeepingLab()
      : Lab({.node = "n1", .service_proxy_name = "", .slice_selector = "", .encoding = ApiEncoding::json},
            {.fleet_jitter = Time(0), .labels = stay}) {}

  void sync_asking(const std::string& keys) {
    sync(event("ADDED", asking("web", 5, keys)));
    REQUIRE(connections.size() == 5);
    peers().head();
    peers().body(event("ADDED", peer("n2", 5, R"("rack":"r1","row":"7")")) + end_mark(10));
    sink.take();
  }
  void ask(int version, const std::string& keys) {
    services().body(event("MODIFIED", asking("web", version, keys)));
  }
  void ask_nothing(int version) { services().body(event("MODIFIED", service("web", version))); }
};

}  // namespace

TEST_CASE("choice H: other Nodes are listed and watched for as long as a Service asks for their labels") {
  Lab lab;
  lab.sync();
  lab.services().body(
      event("ADDED", asking("near", 11, "kubernetes.io/hostname,topology.kubernetes.io/zone,*")));
  CHECK(lab.reported() == "+Service a/near 10.0.0.1 80;flush");
  REQUIRE(lab.connections.size() == 4);
  lab.services().body(event("ADDED", asking("web", 12, "rack,*")));
  CHECK(lab.reported() == "+Service a/web 10.0.0.1 80;flush");
  REQUIRE(lab.connections.size() == 5);
  CHECK(has(lab.peers().request.target, "fieldSelector=metadata.name%21%3Dn1"));
  CHECK(lab.peers().request.accept ==
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 5, R"("other":"x","rack":"r1")")) +
                   event("ADDED", peer("n3", 6, R"("other":"x")")));
  CHECK(lab.reported() == "+Node n2 rack=r1;+Node n3");
  lab.peers().body(end_mark(12));
  CHECK(lab.reported() == "labels known: rack;flush");
  lab.peers().body(event("MODIFIED", peer("n2", 13, R"("rack":"r2")")) +
                   event("DELETED", peer("n3", 14, "")));
  CHECK(lab.reported() == "-Node n3;+Node n2 rack=r2;flush");
  CHECK(lab.source->stats().back().resource == "peer_nodes");
  lab.slices().body(event("ADDED", slice("web", 15, "10.1.0.1")) +
                    event("DELETED", slice("web", 16, "10.1.0.1")));
  lab.sink.take();
  CHECK(lab.peers().reader != nullptr);
  lab.services().body(event("MODIFIED", service("web", 17)));
  CHECK(lab.reported() == "+Service a/web 10.0.0.1 80;labels known:;flush");
  CHECK(lab.peers().reader == nullptr);
  CHECK(lab.source->stats().size() == 4);
  lab.pass(Time(600'000));
  CHECK(lab.peers().asked == 1);
}

TEST_CASE("choice H: another label is known when all Nodes were listed anew, and those before stay known") {
  Lab lab;
  lab.sync(event("ADDED", asking("web", 5, "rack")));
  REQUIRE(lab.connections.size() == 5);
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 5, R"("rack":"r1","row":"7")")) +
                   event("ADDED", peer("n3", 6, R"("rack":"r1")")) + end_mark(12));
  CHECK(lab.reported() == "+Node n2 rack=r1;+Node n3 rack=r1;labels known: rack;flush");
  lab.services().body(event("ADDED", asking("more", 13, "row")));
  CHECK(lab.reported() == "+Service a/more 10.0.0.1 80;flush");
  CHECK(lab.peers().reader == nullptr);
  lab.pass(Time(1'000));
  REQUIRE(lab.connections.size() == 5);
  REQUIRE(lab.peers().asked == 2);
  REQUIRE(has(lab.peers().request.target, "sendInitialEvents"));
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 5, R"("rack":"r1","row":"7")")));
  CHECK(lab.reported() == "+Node n2 rack=r1 row=7");
  lab.peers().body(end_mark(14));
  CHECK(lab.reported() == "-Node n3;labels known: rack row;flush");
  lab.services().body(event("DELETED", asking("web", 15, "rack")));
  CHECK(lab.reported() == "-Service a/web;labels known: row;flush");
  CHECK(lab.peers().reader != nullptr);
  lab.services().body(event("MODIFIED", asking("more", 16, "room")));
  CHECK(lab.reported() == "+Service a/more 10.0.0.1 80;labels known:;flush");
}

TEST_CASE("choice H: while the list of Nodes is held, everything else goes on") {
  Lab lab;
  lab.services().head();
  lab.services().body(event("ADDED", asking("web", 5, "rack")) + end_mark(9));
  REQUIRE(lab.connections.size() == 5);
  for (auto* connection : {&lab.slices(), &lab.nodes(), &lab.cidrs()}) {
    connection->head();
    connection->body(end_mark(9));
  }
  CHECK(lab.reported() == "labels known:;+Service a/web 10.0.0.1 80;synced");
  for (int i = 0; i < 10; ++i) {
    lab.pass(Time(30'000));
    if (lab.peers().reader != nullptr) {
      lab.peers().head(403);
      lab.peers().end(End::complete);
    }
  }
  lab.services().end(End::truncated);
  lab.sink.take();
  lab.pass(Time(9'000));
  lab.services().head();
  lab.services().body(fmt::format(R"({{"metadata":{{"resourceVersion":"12"}},"items":[]}})"));
  lab.services().end(End::complete);
  lab.services().head();
  lab.services().body(event("ADDED", service("other", 12)));
  CHECK(lab.reported() == "+Service a/other 10.0.0.1 80;flush");
}

TEST_CASE("choice H: what a list that did not end reported of labels is forgotten with them") {
  Lab lab;
  lab.sync(event("ADDED", asking("web", 5, "rack")));
  REQUIRE(lab.connections.size() == 5);
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 5, R"("rack":"r1")")));
  CHECK(lab.reported() == "+Node n2 rack=r1");
  lab.services().body(event("MODIFIED", service("web", 13)));
  CHECK(lab.reported() == "+Service a/web 10.0.0.1 80;labels known:;flush");
}

TEST_CASE("choice H: what a list reported of labels is forgotten also when the list is stale") {
  Lab lab;
  lab.sync(event("ADDED", asking("web", 5, "rack")));
  REQUIRE(lab.connections.size() == 5);
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 12, R"("rack":"r1")")) + end_mark(11));
  CHECK(lab.reported() == "+Node n2 rack=r1;flush");
  lab.services().body(event("MODIFIED", service("web", 13)));
  CHECK(lab.reported() == "+Service a/web 10.0.0.1 80;labels known:;flush");
}

TEST_CASE("choice H: when a label is dropped under way, all Nodes are listed anew for those that remain") {
  Lab lab;
  lab.sync(event("ADDED", asking("web", 5, "rack,row")));
  REQUIRE(lab.connections.size() == 5);
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 5, R"("rack":"r1","row":"7")")));
  CHECK(lab.reported() == "+Node n2 rack=r1 row=7");
  lab.services().body(event("MODIFIED", asking("web", 13, "row")));
  CHECK(lab.reported() == "+Service a/web 10.0.0.1 80;labels known:;flush");
  CHECK(lab.peers().reader == nullptr);
  lab.pass(Time(1'000));
  REQUIRE(lab.peers().asked == 2);
  REQUIRE(has(lab.peers().request.target, "sendInitialEvents"));
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 5, R"("rack":"r1","row":"7")")) + end_mark(14));
  CHECK(lab.reported() == "+Node n2 row=7;labels known: row;flush");
}

TEST_CASE("choice H: where all labels that remain are known, the list under way goes on") {
  Lab lab;
  lab.sync(event("ADDED", asking("web", 5, "rack")));
  REQUIRE(lab.connections.size() == 5);
  lab.peers().head();
  lab.peers().body(end_mark(12));
  lab.services().body(event("MODIFIED", asking("web", 13, "rack,row")));
  lab.pass(Time(1'000));
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 13, R"("rack":"r1","row":"7")")));
  lab.sink.take();
  lab.services().body(event("MODIFIED", asking("web", 14, "rack")));
  CHECK(lab.reported() == "+Service a/web 10.0.0.1 80;labels known: rack;flush");
  CHECK(lab.peers().reader != nullptr);
  CHECK(lab.peers().asked == 2);
}

TEST_CASE("choice H: a list of Services under way does not end the watch of Nodes") {
  Lab lab;
  lab.sync(event("ADDED", asking("web", 5, "rack")));
  REQUIRE(lab.connections.size() == 5);
  lab.peers().head();
  lab.peers().body(end_mark(10));
  lab.services().body(event("ERROR", status(410)));
  lab.pass(Time(1'000));
  REQUIRE(has(lab.services().request.target, "sendInitialEvents"));
  lab.services().head();
  lab.services().body(event("ADDED", service("web", 12)));  // no longer asks for labels
  lab.sink.take();
  lab.peers().body(event("ADDED", peer("n2", 13, R"("rack":"r1")")));
  CHECK(lab.reported() == "+Node n2 rack=r1;flush");
  lab.services().body(end_mark(14));
  CHECK(lab.reported() == "labels known:;flush");
  CHECK(lab.peers().reader == nullptr);
}

TEST_CASE("choice H: a Service that comes does not make all agents list Nodes in the same moment") {
  Lab lab({.node = "n1", .service_proxy_name = "", .slice_selector = "", .encoding = ApiEncoding::json},
          {.fleet_jitter = Time(3'000)});
  lab.sync();
  lab.services().body(event("ADDED", asking("web", 12, "rack,*")));
  REQUIRE(lab.connections.size() == 5);
  CHECK(lab.peers().asked == 0);
  lab.pass(Time(3'000));
  CHECK(lab.peers().asked == 1);
}

TEST_CASE("REL-96: a Service that asks for labels now and then does not make all agents list Nodes again") {
  KeepingLab lab;
  lab.sync_asking("rack");
  for (int version = 11; version < 20; version += 2) {
    lab.ask_nothing(version);
    CHECK(lab.reported() == "+Service a/web 10.0.0.1 80;flush");
    lab.pass(Time(1'000));
    lab.peers().body(event("MODIFIED", peer("n2", version, fmt::format(R"("rack":"{}")", version))));
    CHECK(lab.reported() == fmt::format("+Node n2 rack={};flush", version));
    lab.ask(version + 1, "rack");
    CHECK(lab.reported() == "+Service a/web 10.0.0.1 80;flush");
  }
  CHECK(lab.connections.size() == 5);
  CHECK(lab.peers().asked == 1);
  CHECK(lab.peers().reader != nullptr);
  lab.pass(KeepingLab::stay);  // a Service asks
  CHECK(lab.reported().empty());
  lab.ask_nothing(21);
  lab.pass(KeepingLab::stay - Time(1));
  CHECK(lab.reported() == "+Service a/web 10.0.0.1 80;flush");
  lab.pass(Time(1));
  CHECK(lab.reported() == "labels known:;flush");
  CHECK(lab.peers().reader == nullptr);
  CHECK(lab.source->stats().size() == 4);
}

TEST_CASE("REL-96: a label that no Service asks for stays known while others are listed, for its time") {
  KeepingLab lab;
  lab.sync_asking("rack");
  lab.ask(11, "row");
  CHECK(lab.reported() == "+Service a/web 10.0.0.1 80;flush");
  lab.pass(Time(1'000));
  REQUIRE(lab.peers().asked == 2);
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 12, R"("rack":"r1","row":"7")")) + end_mark(12));
  CHECK(lab.reported() == "+Node n2 rack=r1 row=7;labels known: rack row;flush");
  lab.ask(13, "rack");
  lab.ask(14, "row");
  lab.sink.take();
  lab.pass(KeepingLab::stay);
  CHECK(lab.reported() == "labels known: row;flush");
  CHECK(lab.peers().asked == 2);
  CHECK(lab.peers().reader != nullptr);
}

TEST_CASE("REL-96: a label's time does not end during a list of Services, which may ask for it") {
  KeepingLab lab;
  lab.sync_asking("rack");
  lab.ask_nothing(11);
  lab.pass(KeepingLab::stay - Time(2'000));
  lab.services().body(event("ERROR", status(410)));
  lab.pass(Time(1'000));
  REQUIRE(has(lab.services().request.target, "sendInitialEvents"));
  lab.services().head();
  lab.sink.take();
  lab.pass(Time(2'000));
  CHECK(lab.reported().empty());
  const bool asks = GENERATE(true, false);
  lab.services().body(event("ADDED", asks ? asking("other", 12, "rack") : service("other", 12)) +
                      end_mark(14));
  CHECK(lab.reported() == (asks ? "-Service a/web;+Service a/other 10.0.0.1 80;flush"
                                : "-Service a/web;+Service a/other 10.0.0.1 80;labels known:;flush"));
  CHECK((lab.peers().reader != nullptr) == asks);
  CHECK(lab.peers().asked == 1);
}

TEST_CASE("REL-96: of ever new labels none is kept that no Service asks for") {
  LingeringLabels labels(Time(600'000));
  CHECK(labels.update({"rack"}, Time(0)).size() == 1);
  CHECK(labels.update({}, Time(1)) == LabelKeys{"rack"});
  CHECK(labels.due() == Time(600'001));
  for (int i = 0; i < 1000; ++i) {
    CHECK(labels.update({fmt::format("label-{}", i)}, Time(2)).size() <= LingeringLabels::max_unasked + 1);
  }
  CHECK(labels.update({}, Time(3)).size() <= LingeringLabels::max_unasked);
  CHECK(labels.update({}, Time(600'003)).empty());
  CHECK_FALSE(labels.due());
}
