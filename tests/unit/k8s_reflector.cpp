// List and watch: answers in, requests and objects out, at times that the test sets.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <vector>

#include "k8s/reflector.hpp"

using namespace lb::k8s;

namespace {

class Record final : public Listener {
 public:
  void upsert(Object object) override { lines.push_back("+" + std::get<Service>(object).key.name); }
  void erase(Kind /*kind*/, const ObjectKey& key) override { lines.push_back("-" + key.name); }
  void complain(Complaint complaint) override { lines.push_back("!" + complaint.object); }
  void trouble(std::string sentence) override { troubles.push_back(std::move(sentence)); }
  void listed(Kind /*kind*/) override { lines.emplace_back("listed"); }
  std::string take() {
    const auto text = fmt::format("{}", fmt::join(lines, " "));
    lines.clear();
    return text;
  }

  std::vector<std::string> lines;
  std::vector<std::string> troubles;
};

std::string object(const std::string& name, int version) {
  return fmt::format(
      R"({{"kind":"Service","apiVersion":"v1","metadata":{{"name":"{}","namespace":"a","resourceVersion":"{}"}}}})",
      name, version);
}

std::string event(const std::string& type, const std::string& body) {
  return fmt::format(R"({{"type":"{}","object":{}}})", type, body) + "\n";
}

std::string added(const std::string& name, int version) { return event("ADDED", object(name, version)); }

std::string mark(int version, const std::string& annotations = "") {
  return event("BOOKMARK", fmt::format(R"({{"kind":"Service","metadata":{{"resourceVersion":"{}"{}}}}})",
                                       version, annotations));
}

std::string end_mark(int version) {
  return mark(version, R"(,"annotations":{"k8s.io/initial-events-end":"true"})");
}

std::string page(int version, const std::string& more, const std::string& items) {
  return fmt::format(
      R"({{"kind":"ServiceList","metadata":{{"resourceVersion":"{}","continue":"{}"}},"items":[{}]}})",
      version, more, items);
}

std::string status(int code) {
  return fmt::format(R"({{"kind":"Status","code":{},"message":"because"}})", code);
}

/// A reflector whose time passes by waiting for its deadlines.
struct Lab {
  Record record;
  Time now{1'000};
  Reflector reflector{{Kind::service, "/api/v1/services", "!x", "a!=b"}, ApiEncoding::json, {}, 7, record};

  /// The next request's target; waits as long as it must.
  std::string ask() {
    for (;;) {
      if (const auto request = reflector.begin(now)) {
        fresh = request->connection == Connection::fresh;
        return request->target;
      }
      REQUIRE(reflector.deadline() > now);
      waited += reflector.deadline() - now;
      now = reflector.deadline();
    }
  }
  Flow give(const std::string& bytes, unsigned code = 200) {
    auto flow = reflector.head({code, "application/json", std::nullopt}, now);
    return flow == Flow::go_on ? reflector.body(bytes, now) : flow;
  }
  /// More of the stream that is open; what comes of it is seen in the record.
  void more(const std::string& bytes) { (void)reflector.body(bytes, now); }
  /// An answer to its end.
  void answer(const std::string& bytes, End how = End::whole, unsigned code = 200) {
    const auto flow = give(bytes, code);
    reflector.end(flow == Flow::stop ? End::stopped : how, now);
  }
  /// Brings a list of these, and leaves its stream open.
  void list(const std::string& events, int version) {
    ask();
    REQUIRE(give(events + end_mark(version)) == Flow::go_on);
    record.take();
  }

  bool fresh = false;
  Time waited{0};
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

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

TEST_CASE("k8s reflector: objects are told however the bytes are cut") {
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
      {"refused by status", status(422), End::whole, 422, 1},
      {"refused in the stream", event("ERROR", status(500)), End::whole, 200, 1},
      {"cut twice", added("a", 1), End::cut, 200, 2},
      {"silent twice", added("a", 1), End::silent, 200, 2},
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

TEST_CASE("REL-31: an expired continue token lists again without a limit") {
  Lab lab;
  lab.ask();
  lab.answer(status(422), End::whole, 422);
  lab.ask();
  lab.answer(page(9, "next", object("a", 5)));
  lab.ask();
  lab.answer(status(410), End::whole, 410);
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
      CHECK(lab.reflector.body(event("ERROR", status(410)), lab.now) == Flow::stop);
      lab.reflector.end(End::stopped, lab.now);
    } else {
      lab.now += Time(400'000);
      lab.reflector.end(End::whole, lab.now);
      CHECK(has(lab.ask(), "resourceVersion=8"));
      lab.answer(status(410), End::whole, 410);
    }
    CHECK(has(lab.ask(), "sendInitialEvents"));
    lab.give(added("b", 20) + end_mark(21));
    CHECK(lab.record.take() == "+b -a listed");
  }
}

TEST_CASE("REL-33: a cut or silent watch resumes on a new connection where it stood") {
  for (const auto how : {End::cut, End::silent}) {
    Lab lab;
    lab.list(added("a", 5), 8);
    CHECK(lab.reflector.deadline() == lab.now + Patience{}.watch);
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
    std::string before;  ///< what the watch brings until it falls silent
    unsigned head;       ///< 0: none comes
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
    lab.reflector.end(End::whole, lab.now);  // its time was over
    REQUIRE(has(lab.ask(), "resourceVersion=8"));
    if (row.head != 0) {
      lab.give(row.before, row.head);
    }
    lab.record.take();
    const auto silence = row.head != 0 ? Patience{}.watch : Patience{}.head;
    CHECK(lab.reflector.deadline() == lab.now + silence);
    lab.now = lab.reflector.deadline();
    CHECK(lab.reflector.quiet(End::silent) == row.quiet);
    lab.reflector.end(End::silent, lab.now);
    CHECK(has(lab.ask(), "limit=1"));  // whether a server is there, and of what time
    CHECK(lab.fresh);
    CHECK((lab.waited == Time(0)) == row.quiet);
    CHECK(lab.record.troubles.empty() == row.quiet);
    CHECK(lab.reflector.counts().quiet == (row.quiet ? 1 : 0));
    lab.answer(page(30, "", object("a", 5)));
    CHECK(has(lab.ask(), row.before.empty() || !row.quiet ? "resourceVersion=8" : "resourceVersion=9"));
    CHECK(lab.record.take().empty());
  }
}

TEST_CASE("REL-33: a watch may be quiet for ever, and a server that has gone meanwhile is noticed") {
  Lab lab;
  lab.list(added("a", 5), 8);
  for (int times = 0; times < 20; ++times) {
    lab.now = lab.reflector.deadline();
    lab.reflector.end(End::silent, lab.now);
    CHECK(has(lab.ask(), "limit=1"));
    lab.answer(page(30, "", object("a", 5)));
    CHECK(has(lab.ask(), "resourceVersion=8"));
    lab.give("");
  }
  CHECK(lab.waited == Time(0));
  CHECK(lab.record.troubles.empty());
  CHECK(lab.reflector.counts().quiet == 20);
  CHECK(lab.reflector.counts().watches == 21);
  lab.now = lab.reflector.deadline();
  lab.reflector.end(End::silent, lab.now);
  lab.ask();
  lab.reflector.end(End::silent, lab.now + Patience{}.head);
  CHECK(lab.reflector.counts().quiet == 21);  // the watch, not the probe
  REQUIRE(lab.record.troubles.size() == 1);
  CHECK(has(lab.record.troubles[0], "the server fell silent"));
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

TEST_CASE("REL-77: an answer 401, 403 or 404 changes nothing but the connection") {
  for (const unsigned code : {401U, 403U, 404U, 500U, 302U}) {
    CAPTURE(code);
    Lab lab;
    lab.list(added("a", 5), 8);
    lab.reflector.end(End::cut, lab.now);
    lab.ask();
    lab.answer(status(static_cast<int>(code)), End::whole, code);
    CHECK(has(lab.ask(), "limit=1"));
    CHECK(lab.fresh);
    CHECK(lab.record.take().empty());
    CHECK(lab.reflector.objects() == 1);
  }
}

TEST_CASE("REL-34: pauses grow, and Retry-After is kept to") {
  Lab lab;
  lab.ask();
  CHECK(lab.reflector.head({429, "text/plain", std::chrono::seconds(7)}, lab.now) == Flow::go_on);
  lab.reflector.end(End::whole, lab.now);
  lab.ask();
  CHECK(lab.waited >= Time(7'000));
  lab.waited = Time(0);
  for (int i = 0; i < 60; ++i) {
    lab.answer(status(503), End::whole, 503);
    lab.ask();
    CHECK((i >= 10 || lab.waited < Time(10'000)));  // a server that starts is not missed
  }
  CHECK(lab.waited > Time(150'000));
  CHECK(lab.waited < Time(60 * 10'000));
  lab.waited = Time(0);
  for (int i = 0; i < 10; ++i) {
    lab.answer(status(429), End::whole, 429);
    lab.ask();
  }
  CHECK(lab.waited > Time(90'000));
}

TEST_CASE("REL-30: a server that comes back is asked within 2 s") {
  Lab lab;
  lab.list(added("a", 5), 8);
  lab.reflector.end(End::cut, lab.now);
  for (int i = 0; i < 300; ++i) {
    lab.ask();
    lab.waited = Time(0);
    lab.reflector.end(End::unreachable, lab.now);
  }
  lab.ask();
  CHECK(lab.waited >= Time(700));
  CHECK(lab.waited <= Time(1'500));
  CHECK(lab.record.take().empty());
  CHECK(lab.record.troubles.size() <= 2);
}

TEST_CASE("REL-30: a server that is dead behind a living address is asked as often as one that is away") {
  Lab lab;
  lab.list(added("a", 5), 8);
  lab.reflector.end(End::cut, lab.now);
  for (int i = 0; i < 100; ++i) {
    lab.ask();
    lab.waited = Time(0);
    lab.reflector.end(End::cut, lab.now);
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
  lab.reflector.end(End::cut, lab.now);
  for (int i = 0; i < 100; ++i) {
    lab.ask();
    lab.reflector.end(End::unreachable, lab.now);
  }
  CHECK(has(lab.ask(), "limit=1"));
  lab.answer(page(30, "more", object("a", 5)));
  CHECK(has(lab.ask(), "resourceVersion=8"));
  lab.waited = Time(0);
  lab.answer(status(410), End::whole, 410);
  CHECK(has(lab.ask(), "sendInitialEvents"));
  CHECK(lab.waited <= Time(1'000));
  lab.waited = Time(0);
  for (int i = 0; i < 10; ++i) {
    lab.give(added("a", 30) + end_mark(31));
    CHECK(lab.reflector.body(event("ERROR", status(410)), lab.now) == Flow::stop);
    lab.reflector.end(End::stopped, lab.now);
    lab.ask();
  }
  CHECK(lab.waited >= Time(30'000));
}

TEST_CASE("k8s reflector: trouble is told once for as long as it lasts, and its end") {
  Lab lab;
  lab.list(added("a", 5), 8);
  lab.reflector.end(End::cut, lab.now, "https://one");
  for (int i = 0; i < 5; ++i) {
    lab.ask();
    lab.reflector.end(End::unreachable, lab.now, "https://two: refused");
  }
  REQUIRE(lab.record.troubles.size() == 2);
  CHECK(has(lab.record.troubles[0],
            "/api/v1/services: the connection broke off (https://one); trying again in 0."));
  CHECK(has(lab.record.troubles[1], "the server cannot be reached (https://two: refused)"));
  lab.ask();
  lab.answer(page(8, "", object("a", 5)));
  lab.ask();
  lab.give("");
  REQUIRE(lab.record.troubles.size() == 3);
  CHECK(lab.record.troubles[2] == "/api/v1/services: the server answers again");
}

TEST_CASE("REL-76: nothing goes back in time, and a restore from a backup is noticed in 30 s") {
  Lab lab;
  lab.list(added("a", 50) + added("b", 60), 80);
  lab.more(event("MODIFIED", object("a", 40)) + event("DELETED", object("b", 41)));
  CHECK(lab.record.take().empty());
  lab.reflector.end(End::cut, lab.now);
  const auto cut = lab.now;
  std::string target;
  while (!has(target = lab.ask(), "sendInitialEvents")) {
    REQUIRE(lab.now - cut < Time(30'000));
    lab.answer(page(45, "", object("a", 40)));
  }
  CHECK(lab.now - cut >= Patience{}.past);
  CHECK(lab.record.take().empty());
  lab.give(added("a", 40) + end_mark(45));
  CHECK(lab.record.take() == "+a -b listed");
  CHECK(lab.reflector.version() == 45);
}

TEST_CASE("REL-76: what a part of a list told is newer than all that follows, until a whole list has come") {
  for (const bool restored : {false, true}) {
    CAPTURE(restored);
    Lab lab;
    lab.list(added("a", 5) + added("b", 6), 8);
    lab.more(event("ERROR", status(410)));
    lab.reflector.end(End::stopped, lab.now);
    CHECK(has(lab.ask(), "sendInitialEvents"));
    lab.answer(added("a", 24), End::cut);
    CHECK(lab.record.take() == "+a");
    CHECK(has(lab.ask(), "sendInitialEvents"));
    lab.answer(added("a", 20) + end_mark(22));  // another server lags, or the store was restored
    CHECK(lab.record.take().empty());
    CHECK(has(lab.ask(), "limit=1"));
    lab.answer(page(22, "", object("a", 20)));
    CHECK(has(lab.ask(), "limit=1"));
    if (!restored) {
      lab.answer(page(30, "", object("a", 24)));
      CHECK(has(lab.ask(), "sendInitialEvents"));  // the watch from 8 would go back in time
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
  CHECK(lab.give(added("a", 3) + end_mark(20)) == Flow::go_on);
  CHECK(lab.record.take() == "+a -b listed");
  CHECK(lab.reflector.version() == 20);
}

TEST_CASE("k8s reflector: what one event makes all agents list is spread over a few seconds") {
  Patience patience;
  patience.crowd = Time(3'000);
  std::set<Time> firsts;
  std::set<Time> others;
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    Record record;
    Reflector reflector({Kind::service, "/api/v1/services", "", ""}, ApiEncoding::json, patience, seed * 7919,
                        record);
    reflector.spread(Time(1'000));
    firsts.insert(reflector.deadline() - Time(1'000));
    CHECK(reflector.begin(Time(1'000)).has_value() == (reflector.deadline() == Time(1'000)));
    REQUIRE(reflector.begin(reflector.deadline()));
    reflector.end(End::stopped, Time(10'000));
    reflector.list_anew(Time(60'000));
    others.insert(reflector.deadline() - Time(60'000));
    const auto until = reflector.deadline();
    reflector.list_anew(until - Time(1));
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
