// SPDX-License-Identifier: Apache-2.0
// List and watch of a server that refuses, is down or returns old data: the next request, its time, and which
// responses are accepted.
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

#include "tests/unit/k8s/watch/reflector_lab.hpp"

using namespace lb::k8s;
using namespace lb::k8s::test;

TEST_CASE("REL-77: an answer 401, 403 or 404 changes nothing but the connection") {
  for (const unsigned code : {401U, 403U, 404U, 500U, 302U}) {
    CAPTURE(code);
    Lab lab;
    lab.list(added("a", 5), 8);
    lab.reflector.end(End::truncated, lab.now);
    lab.ask();
    lab.answer(status(static_cast<int>(code)), End::complete, code);
    CHECK(has(lab.ask(), "limit=1"));
    CHECK(lab.fresh);
    CHECK(lab.record.take().empty());
    CHECK(lab.reflector.objects() == 1);
  }
}

TEST_CASE("REL-34: pauses grow, and Retry-After is kept to") {
  Lab lab;
  lab.ask();
  CHECK(lab.reflector.head({429, "text/plain", std::chrono::seconds(7)}, lab.now) == ReadControl::proceed);
  lab.reflector.end(End::complete, lab.now);
  lab.ask();
  CHECK(lab.waited >= Time(7'000));
  lab.waited = Time(0);
  for (int i = 0; i < 60; ++i) {
    lab.answer(status(503), End::complete, 503);
    lab.ask();
    CHECK((i >= 10 || lab.waited < Time(10'000)));  // notices a starting server
  }
  CHECK(lab.waited > Time(150'000));
  CHECK(lab.waited < Time(60 * 10'000));
  lab.waited = Time(0);
  for (int i = 0; i < 10; ++i) {
    lab.answer(status(429), End::complete, 429);
    lab.ask();
  }
  CHECK(lab.waited > Time(90'000));
}

TEST_CASE("REL-30: a server that comes back is asked within 2 s") {
  Lab lab;
  lab.list(added("a", 5), 8);
  lab.reflector.end(End::truncated, lab.now);
  for (int i = 0; i < 300; ++i) {
    lab.ask();
    lab.waited = Time(0);
    lab.reflector.end(End::unreachable, lab.now);
  }
  lab.ask();
  CHECK(lab.waited >= Time(700));
  CHECK(lab.waited <= Time(1'500));
  CHECK(lab.record.take().empty());
  CHECK(lab.record.failures.size() <= 2);
}

TEST_CASE("REL-30: a server that is dead behind a living address is asked as often as one that is away") {
  Lab lab;
  lab.list(added("a", 5), 8);
  lab.reflector.end(End::truncated, lab.now);
  for (int i = 0; i < 100; ++i) {
    lab.ask();
    lab.waited = Time(0);
    lab.reflector.end(End::truncated, lab.now);
  }
  lab.ask();
  CHECK(lab.waited >= Time(700));
  CHECK(lab.waited <= Time(1'500));
}

TEST_CASE(
    "REL-30, REL-31: a server that comes back without the old versions is listed within 1 s, then ever "
    "later") {
  Lab lab;
  lab.list(added("a", 5), 8);
  lab.now += Time(10'000);
  lab.reflector.end(End::truncated, lab.now);
  for (int i = 0; i < 100; ++i) {
    lab.ask();
    lab.reflector.end(End::unreachable, lab.now);
  }
  CHECK(has(lab.ask(), "limit=1"));
  lab.answer(page(30, "more", object("a", 5)));
  CHECK(has(lab.ask(), "resourceVersion=8"));
  lab.waited = Time(0);
  lab.answer(status(410), End::complete, 410);
  CHECK(has(lab.ask(), "sendInitialEvents"));
  CHECK(lab.waited <= Time(1'000));
  lab.waited = Time(0);
  for (int i = 0; i < 10; ++i) {
    lab.give(added("a", 30) + end_mark(31));
    CHECK(lab.reflector.body(event("ERROR", status(410)), lab.now) == ReadControl::stop);
    lab.reflector.end(End::stopped, lab.now);
    lab.ask();
  }
  CHECK(lab.waited >= Time(30'000));
}

TEST_CASE("k8s reflector: a failure is reported once for as long as it lasts, and its end") {
  Lab lab;
  lab.list(added("a", 5), 8);
  lab.reflector.end(End::truncated, lab.now, "https://one");
  for (int i = 0; i < 5; ++i) {
    lab.ask();
    lab.reflector.end(End::unreachable, lab.now, "https://two: refused");
  }
  REQUIRE(lab.record.failures.size() == 2);
  CHECK(has(lab.record.failures[0],
            "/api/v1/services: the connection broke off (https://one); trying again in 0."));
  CHECK(has(lab.record.failures[1], "the server cannot be reached (https://two: refused)"));
  lab.ask();
  lab.answer(page(8, "", object("a", 5)));
  lab.ask();
  lab.give("");
  REQUIRE(lab.record.failures.size() == 3);
  CHECK(lab.record.failures[2] == "/api/v1/services: the server answers again");
}

TEST_CASE("a refusal is reported whole, with where the rights are") {
  Lab lab;
  lab.ask();
  const std::string message =
      "endpointslices.discovery.k8s.io is forbidden: User 'system:serviceaccount:kube-system:sluice' cannot "
      "list resource 'endpointslices' in API group 'discovery.k8s.io' at the cluster scope";
  lab.answer(fmt::format(R"({{"kind":"Status","code":403,"message":"{}"}})", message), End::complete, 403);
  REQUIRE(lab.record.failures.size() == 1);
  CHECK(has(lab.record.failures[0], "the server answers 403: \"" + message + "\""));
  CHECK(has(lab.record.failures[0], "k8s/deploy/account.yaml"));
}

TEST_CASE("REL-76: nothing goes back in time, and a restore from a backup is noticed in 30 s") {
  Lab lab;
  lab.list(added("a", 50) + added("b", 60), 80);
  lab.more(event("MODIFIED", object("a", 40)) + event("DELETED", object("b", 41)));
  CHECK(lab.record.take().empty());
  lab.reflector.end(End::truncated, lab.now);
  const auto cut = lab.now;
  std::string target;
  while (!has(target = lab.ask(), "sendInitialEvents")) {
    REQUIRE(lab.now - cut < Time(30'000));
    lab.answer(page(45, "", object("a", 40)));
  }
  CHECK(lab.now - cut >= Timeouts{}.stale);
  CHECK(lab.record.take().empty());
  lab.give(added("a", 40) + end_mark(45));
  CHECK(lab.record.take() == "+a -b listed");
  CHECK(lab.reflector.version() == 45);
}

TEST_CASE(
    "REL-76: what a part of a list reported is newer than all that follows, until a whole list has come") {
  for (const bool restored : {false, true}) {
    CAPTURE(restored);
    Lab lab;
    lab.list(added("a", 5) + added("b", 6), 8);
    lab.more(event("ERROR", status(410)));
    lab.reflector.end(End::stopped, lab.now);
    CHECK(has(lab.ask(), "sendInitialEvents"));
    lab.answer(added("a", 24), End::truncated);
    CHECK(lab.record.take() == "+a");
    CHECK(has(lab.ask(), "sendInitialEvents"));
    lab.answer(added("a", 20) + end_mark(22));  // as from a lagging server, or after the store was restored
    CHECK(lab.record.take().empty());
    CHECK(has(lab.ask(), "limit=1"));
    lab.answer(page(22, "", object("a", 20)));
    CHECK(has(lab.ask(), "limit=1"));
    if (!restored) {
      lab.answer(page(30, "", object("a", 24)));
      CHECK(has(lab.ask(), "sendInitialEvents"));  // a watch from 8 would go back in time
      lab.answer(added("a", 24) + end_mark(30));
      CHECK(lab.record.take() == "+a -b listed");
      continue;
    }
    std::string target;
    const auto since = lab.now;
    do {
      REQUIRE(lab.now - since < Time(30'000));
      lab.answer(page(22, "", object("a", 20)));
    } while (!has(target = lab.ask(), "sendInitialEvents"));
    lab.answer(added("a", 20) + end_mark(22));
    CHECK(lab.record.take() == "+a -b listed");
    CHECK(lab.reflector.version() == 22);
  }
}

TEST_CASE("REL-76: a list from the past is given up before it changes anything") {
  Lab lab;
  lab.list(added("a", 50), 80);
  lab.more(event("ERROR", status(410)));
  lab.reflector.end(End::stopped, lab.now);
  lab.ask();
  lab.answer(added("deleted", 30) + end_mark(45));
  CHECK(lab.record.take().empty());
  CHECK(has(lab.ask(), "limit=1"));
  CHECK(lab.fresh);
}

TEST_CASE(
    "REL-76: a restored store whose versions have gone on beyond those seen is believed at the second list") {
  Lab lab;
  lab.list(added("a", 5) + added("b", 6), 10);
  lab.more(event("ERROR", status(410)));
  lab.reflector.end(End::stopped, lab.now);
  CHECK(has(lab.ask(), "sendInitialEvents=true"));
  lab.answer(added("a", 3) + end_mark(20));
  CHECK(lab.record.take().empty());
  CHECK(has(lab.ask(), "limit=1"));
  lab.answer(page(20, "", ""));
  CHECK(has(lab.ask(), "sendInitialEvents=true"));
  CHECK(lab.give(added("a", 3) + end_mark(20)) == ReadControl::proceed);
  CHECK(lab.record.take() == "+a -b listed");
  CHECK(lab.reflector.version() == 20);
}

TEST_CASE("k8s reflector: what one event makes all agents list is spread over a few seconds") {
  Timeouts timeouts;
  timeouts.fleet_jitter = Time(3'000);
  std::set<Time> firsts;
  std::set<Time> others;
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    Record record;
    Reflector reflector({Kind::service, "/api/v1/services", "", ""}, ApiEncoding::json, timeouts, seed * 7919,
                        record);
    reflector.spread(Time(1'000));
    firsts.insert(reflector.deadline() - Time(1'000));
    CHECK(reflector.begin(Time(1'000)).has_value() == (reflector.deadline() == Time(1'000)));
    REQUIRE(reflector.begin(reflector.deadline()));
    reflector.end(End::stopped, Time(10'000));
    reflector.relist(Time(60'000));
    others.insert(reflector.deadline() - Time(60'000));
    const auto until = reflector.deadline();
    reflector.relist(until - Time(1));
    CHECK(reflector.deadline() == until);
  }
  CHECK(firsts.size() > 100);
  CHECK(*firsts.begin() < Time(300));
  CHECK(*firsts.rbegin() > Time(2'700));
  CHECK(*firsts.rbegin() <= Time(3'000));
  CHECK(others.size() > 100);
  CHECK(*others.begin() >= Time(375));
  CHECK(*others.rbegin() <= Time(3'625));
}
