// SPDX-License-Identifier: Apache-2.0
// List and watch: responses in, requests and objects out, at times that the test sets.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/unit/k8s/watch/reflector_lab.hpp"

using namespace lb::k8s;
using namespace lb::k8s::test;

TEST_CASE("k8s reflector: a streaming list is whole at its end bookmark, and goes on as a watch") {
  Lab lab;
  const auto target = lab.ask();
  CHECK(has(target, "sendInitialEvents=true"));
  CHECK(has(target, "resourceVersionMatch=NotOlderThan"));
  CHECK(has(target, "labelSelector=%21x&fieldSelector=a%21%3Db"));
  lab.give(added("a", 5) + added("b", 6) + mark(7));
  CHECK(lab.record.take() == "+a +b");
  CHECK_FALSE(lab.reflector.synced());
  lab.more(end_mark(8));
  CHECK(lab.record.take() == "listed");
  lab.more(event("DELETED", object("a", 9)) + event("MODIFIED", object("b", 10)));
  CHECK(lab.record.take() == "-a +b");
  CHECK(lab.reflector.version() == 10);
}

TEST_CASE("k8s reflector: objects are reported however the bytes are cut") {
  const auto bytes = added("a", 5) + end_mark(8) + added("b", 9);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    CAPTURE(cut);
    Lab lab;
    lab.ask();
    lab.give(bytes.substr(0, cut));
    lab.more(bytes.substr(cut));
    CHECK(lab.record.take() == "+a listed +b");
  }
}

TEST_CASE("REL-32: a refused or twice cut streaming list becomes a list in pieces") {
  struct Row {
    const char* name;
    std::string bytes;
    End how;
    unsigned code;
    int times;
  };
  const Row rows[] = {
      {"refused by status", status(422), End::complete, 422, 1},
      {"refused in the stream", event("ERROR", status(500)), End::complete, 200, 1},
      {"cut twice", added("a", 1), End::truncated, 200, 2},
      {"silent", added("a", 1), End::timed_out, 200, 1},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    Lab lab;
    for (int i = 0; i < row.times; ++i) {
      CHECK(has(lab.ask(), "sendInitialEvents"));
      lab.answer(row.bytes, row.how, row.code);
    }
    lab.record.take();
    CHECK(has(lab.ask(), "limit=500"));
    lab.answer(page(9, "next", object("a", 5)));
    CHECK_FALSE(lab.reflector.synced());
    CHECK(has(lab.ask(), "continue=next"));
    lab.answer(page(9, "", object("b", 6)));
    CHECK(lab.record.take() == "+a +b listed");
    CHECK(has(lab.ask(), "watch=true"));
  }
}

TEST_CASE("REL-32: a streaming list that is never completed has a deadline, whatever arrives") {
  Lab lab;
  CHECK(has(lab.ask(), "sendInitialEvents"));
  const auto begun = lab.now;
  lab.give(added("a", 1));
  while (lab.reflector.deadline() - lab.now >= Time(10'000)) {
    lab.now += Time(10'000);
    lab.more(mark(9));
  }
  CHECK(lab.reflector.deadline() == begun + Time(60'000));
  lab.now = lab.reflector.deadline();
  lab.reflector.end(End::timed_out, lab.now);
  CHECK(has(lab.ask(), "limit=500"));
  lab.answer(page(9, "", object("a", 1)));
  CHECK(lab.record.take() == "+a +a listed");
  REQUIRE(lab.record.failures.size() == 1);
  CHECK(has(lab.record.failures[0], "does not complete its streaming list"));

  // The next list of the next ten minutes is in pages, too; then the server is asked for a streaming list
  // again.
  lab.reflector.relist(lab.now);
  CHECK(has(lab.ask(), "limit=500"));
  lab.answer(page(10, "", object("a", 1)));
  lab.now += Time(600'000);
  lab.reflector.relist(lab.now);
  CHECK(has(lab.ask(), "sendInitialEvents"));
}

TEST_CASE("REL-31: an expired continue token lists again without a limit") {
  Lab lab;
  lab.ask();
  lab.answer(status(422), End::complete, 422);
  lab.ask();
  lab.answer(page(9, "next", object("a", 5)));
  lab.ask();
  lab.answer(status(410), End::complete, 410);
  const auto target = lab.ask();
  CHECK_FALSE(has(target, "limit="));
  CHECK_FALSE(has(target, "continue="));
  lab.answer(page(12, "", object("b", 11)));
  CHECK(lab.record.take() == "+a +b -a listed");
}

TEST_CASE("REL-31: 410 lists again, as status and as event, and what is gone is deleted") {
  for (const bool as_event : {false, true}) {
    CAPTURE(as_event);
    Lab lab;
    lab.list(added("a", 5) + added("b", 6), 8);
    if (as_event) {
      CHECK(lab.reflector.body(event("ERROR", status(410)), lab.now) == ReadControl::stop);
      lab.reflector.end(End::stopped, lab.now);
    } else {
      lab.now += Time(400'000);
      lab.reflector.end(End::complete, lab.now);
      CHECK(has(lab.ask(), "resourceVersion=8"));
      lab.answer(status(410), End::complete, 410);
    }
    CHECK(has(lab.ask(), "sendInitialEvents"));
    lab.give(added("b", 20) + end_mark(21));
    CHECK(lab.record.take() == "+b -a listed");
  }
}

TEST_CASE("REL-33: a cut or silent watch resumes on a new connection where it stood") {
  for (const auto how : {End::truncated, End::timed_out}) {
    Lab lab;
    lab.list(added("a", 5), 8);
    CHECK(lab.reflector.deadline() == lab.now + Timeouts{}.watch);
    lab.more(added("b", 9) + R"({"type":"ADDED","obj)");
    lab.reflector.end(how, lab.now);
    CHECK(has(lab.ask(), "limit=1"));
    CHECK(lab.fresh);
    lab.answer(page(30, "more", object("a", 5)));
    CHECK(lab.record.take() == "+b");
    CHECK(has(lab.ask(), "resourceVersion=9"));
  }
}

TEST_CASE("REL-33: silence is a failure only where an answer is due") {
  struct Row {
    const char* name;
    std::string before;  ///< the watch's content until it becomes silent
    unsigned head;       ///< HTTP status; 0: no response head comes
    bool quiet;
  };
  const Row rows[] = {
      {"nothing ever", "", 200, true},
      {"a bookmark", mark(9), 200, true},
      {"an event", added("b", 9), 200, true},
      {"the start of an event", R"({"type":"ADDED","obj)", 200, false},
      {"no head", "", 0, false},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    Lab lab;
    lab.list(added("a", 5), 8);
    lab.now += Time(400'000);
    lab.reflector.end(End::complete, lab.now);  // the watch's timeout has passed
    REQUIRE(has(lab.ask(), "resourceVersion=8"));
    if (row.head != 0) {
      lab.give(row.before, row.head);
    }
    lab.record.take();
    const auto silence = row.head != 0 ? Timeouts{}.watch : Timeouts{}.head;
    CHECK(lab.reflector.deadline() == lab.now + silence);
    lab.now = lab.reflector.deadline();
    CHECK(lab.reflector.quiet(End::timed_out) == row.quiet);
    lab.reflector.end(End::timed_out, lab.now);
    CHECK(has(lab.ask(), "limit=1"));  // a probe of the server and its data
    CHECK(lab.fresh);
    CHECK((lab.waited == Time(0)) == row.quiet);
    CHECK(lab.record.failures.empty() == row.quiet);
    CHECK(lab.reflector.counts().quiet == (row.quiet ? 1 : 0));
    lab.answer(page(30, "", object("a", 5)));
    CHECK(has(lab.ask(), row.before.empty() || !row.quiet ? "resourceVersion=8" : "resourceVersion=9"));
    CHECK(lab.record.take().empty());
  }
}

TEST_CASE("REL-33: a watch may be idle for ever, and a server that has gone meanwhile is noticed") {
  Lab lab;
  lab.list(added("a", 5), 8);
  for (int times = 0; times < 20; ++times) {
    lab.now = lab.reflector.deadline();
    lab.reflector.end(End::timed_out, lab.now);
    CHECK(has(lab.ask(), "limit=1"));
    lab.answer(page(30, "", object("a", 5)));
    CHECK(has(lab.ask(), "resourceVersion=8"));
    lab.give("");
  }
  CHECK(lab.waited == Time(0));
  CHECK(lab.record.failures.empty());
  CHECK(lab.reflector.counts().quiet == 20);
  CHECK(lab.reflector.counts().watches == 21);
  lab.now = lab.reflector.deadline();
  lab.reflector.end(End::timed_out, lab.now);
  lab.ask();
  lab.reflector.end(End::timed_out, lab.now + Timeouts{}.head);
  CHECK(lab.reflector.counts().quiet == 21);  // counts the watch, not the probe
  REQUIRE(lab.record.failures.size() == 1);
  CHECK(has(lab.record.failures[0], "the server fell silent"));
  CHECK(lab.reflector.objects() == 1);
}

TEST_CASE("k8s reflector: what cannot be decoded is counted") {
  struct Row {
    const char* name;
    std::string bytes;
    std::uint64_t count;
  };
  const Row rows[] = {
      {"all good", added("b", 9) + mark(10), 0},
      {"an object without a name", event("ADDED", R"({"kind":"Service","apiVersion":"v1","metadata":{}})"),
       1},
      {"a deletion of nobody", event("DELETED", R"({"kind":"Service","apiVersion":"v1","metadata":{}})"), 1},
      {"no event", "}\n", 1},
      {"an unknown event", event("GUESSED", object("b", 9)), 1},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    Lab lab;
    lab.list(added("a", 5), 8);
    lab.more(row.bytes);
    CHECK(lab.reflector.counts().unreadable == row.count);
  }
}
