// The API as a source: what is asked, when all is known, what is told in which order; with lines, alarms and
// time of the test's own. And once over real sockets.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "k8s/api_source.hpp"
#include "k8s/api_world.hpp"
#include "k8s_server.hpp"
#include "k8s_support.hpp"

using namespace lb::k8s;
using namespace lb::k8s::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string service(const std::string& name, int version, const std::string& address = "10.0.0.1") {
  return fmt::format(
      R"({{"kind":"Service","apiVersion":"v1","metadata":{{"name":"{}","namespace":"a","resourceVersion":"{}"}},)"
      R"("spec":{{"clusterIP":"{}","clusterIPs":["{}"],"ipFamilies":["IPv4"],"ports":[{{"port":80}}]}}}})",
      name, version, address, address);
}

/// A Service with topology keys, as in the annotation.
std::string asking(const std::string& name, int version, const std::string& keys) {
  auto text = service(name, version);
  const std::string mark = R"("metadata":{)";
  return text.insert(text.find(mark) + mark.size(),
                     fmt::format(R"("annotations":{{"sluice.lb/topology-keys":"{}"}},)", keys));
}

/// As it comes when metadata alone was asked for.
std::string peer(const std::string& name, int version, const std::string& labels) {
  return fmt::format(
      R"({{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{{"name":"{}",)"
      R"("resourceVersion":"{}","labels":{{{}}}}}}})",
      name, version, labels);
}

std::string slice(const std::string& name, int version, const std::string& address) {
  return fmt::format(
      R"({{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{{"name":"{}","namespace":"a",)"
      R"("resourceVersion":"{}","labels":{{"kubernetes.io/service-name":"web"}}}},"addressType":"IPv4",)"
      R"("ports":[{{"name":"","port":8080}}],"endpoints":[{{"addresses":["{}"]}}]}})",
      name, version, address);
}

std::string node(int version) {
  return fmt::format(
      R"({{"kind":"Node","apiVersion":"v1","metadata":{{"name":"n1","resourceVersion":"{}"}}}})", version);
}

std::string event(const std::string& type, const std::string& object) {
  return fmt::format(R"({{"type":"{}","object":{}}})", type, object) + "\n";
}

std::string end_mark(int version) {
  return event("BOOKMARK", fmt::format(R"({{"metadata":{{"resourceVersion":"{}","annotations":)"
                                       R"({{"k8s.io/initial-events-end":"true"}}}}}})",
                                       version));
}

std::string status(int code) {
  return fmt::format(R"({{"kind":"Status","apiVersion":"v1","code":{},"message":"because"}})", code);
}

/// A line whose other end is the test.
struct FakeLine {
  ApiRequest request;
  AnswerReader* reader = nullptr;
  std::size_t asked = 0;

  void head(unsigned code = 200) {
    REQUIRE(reader != nullptr);
    REQUIRE(reader->head({code, "application/json", std::nullopt}) == Flow::go_on);
  }
  void body(const std::string& bytes) {
    REQUIRE(reader != nullptr);
    if (reader->body(bytes) == Flow::stop) {
      end(End::stopped);
    }
  }
  void end(End how) {
    REQUIRE(reader != nullptr);
    std::exchange(reader, nullptr)->end(how, "https://server");
  }
};

/// Lines by resource; they come in the order of api_resources().
struct Lab {
  explicit Lab(ApiScope scope = {.node = "n1",
                                 .service_proxy_name = "",
                                 .slice_selector = "",
                                 .encoding = ApiEncoding::json},
               Patience patience = {.crowd = Time(0)}) {
    ApiWorld world;
    world.line = [this] { return std::make_unique<Line>(*lines.emplace_back(std::make_unique<FakeLine>())); };
    world.alarm = [this] {
      return std::make_unique<TestAlarm>(*alarms.emplace_back(std::make_unique<Bell>()));
    };
    world.now = [this] { return now; };
    source = std::make_unique<ApiSource>(
        scope, std::move(world), sink, [this](std::string text) { troubles.push_back(std::move(text)); },
        patience);
    source->start();
  }

  FakeLine& services() { return *lines[0]; }
  FakeLine& slices() { return *lines[1]; }
  FakeLine& nodes() { return *lines[2]; }
  FakeLine& cidrs() { return *lines[3]; }
  FakeLine& peers() { return *lines.back(); }

  /// Alarms ring at their times until `end`.
  void pass(Time span) {
    const auto end = now + span;
    for (;;) {
      Bell* next = nullptr;
      for (const auto& bell : alarms) {
        if (bell->ring && bell->when <= end && (next == nullptr || bell->when < next->when)) {
          next = bell.get();
        }
      }
      if (next == nullptr) {
        break;
      }
      now = std::max(now, next->when);
      std::exchange(next->ring, nullptr)();
    }
    now = end;
  }
  /// All lists, empty but for these Services, so that the source is in sync.
  void sync(const std::string& events = "", int version = 10) {
    for (auto* line : {&services(), &slices(), &nodes(), &cidrs()}) {
      line->head();
      line->body((line == &services() ? events : "") + end_mark(version));
    }
    sink.take();
  }
  std::string told() { return fmt::format("{}", fmt::join(sink.take(), ";")); }

  struct Bell {
    Time when{0};
    std::function<void()> ring;
  };
  class TestAlarm final : public Alarm {
   public:
    explicit TestAlarm(Bell& bell) : bell_(bell) {}
    ~TestAlarm() override { bell_.ring = nullptr; }
    TestAlarm(const TestAlarm&) = delete;
    TestAlarm& operator=(const TestAlarm&) = delete;
    void set(Time when, std::function<void()> ring) override { bell_ = {when, std::move(ring)}; }

   private:
    Bell& bell_;
  };
  class Line final : public ApiLine {
   public:
    explicit Line(FakeLine& fake) : fake_(fake) {}
    ~Line() override { fake_.reader = nullptr; }
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;
    void ask(const ApiRequest& request, AnswerReader& reader) override {
      REQUIRE(fake_.reader == nullptr);
      fake_.request = request;
      fake_.reader = &reader;
      ++fake_.asked;
    }
    void hang_up() override { fake_.reader = nullptr; }
    [[nodiscard]] std::string server() const override { return "https://server"; }

   private:
    FakeLine& fake_;
  };

  Time now{1'000};
  RecordingSink sink;
  std::vector<std::string> troubles;
  std::vector<std::unique_ptr<FakeLine>> lines;
  std::vector<std::unique_ptr<Bell>> alarms;
  std::unique_ptr<ApiSource> source;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

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
  CHECK(lab.lines.size() == 4);
  CHECK(has(lab.lines[0]->request.target, "labelSelector=%21service.kubernetes.io%2Fservice-proxy-name"));
}

TEST_CASE("SEM-69, REL-78: in sync when all required lists are whole, in any order, and by no timer") {
  std::array<std::size_t, 3> order = {0, 1, 2};
  do {
    Lab lab;
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK_FALSE(has(lab.told(), "synced"));
      lab.pass(Time(20'000));
      auto& line = *lab.lines[order[i]];
      line.head();
      line.body(order[i] == 0 ? event("ADDED", service("web", 5)) : "");
      line.body(end_mark(9));
    }
    CHECK(has(lab.told(), "synced"));
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
  const auto told = lab.told();
  CHECK(told.starts_with("+EndpointSlice a/huge of web 10."));
  CHECK(told.size() > (std::size_t{3} << 20U));
  CHECK(has(told, "+EndpointSlice a/web-1 of web 10.1.0.2"));
  CHECK(lab.troubles.empty());
  lab.slices().body(event("DELETED", slice("huge", 13, "10.1.0.1")));
  CHECK(has(lab.told(), "-EndpointSlice a/huge"));
}

TEST_CASE("REL-78: one list that is held for ten minutes holds all back, whatever the others do") {
  Lab lab;
  for (auto* line : {&lab.services(), &lab.nodes(), &lab.cidrs()}) {
    line->head();
    line->body(end_mark(9));
  }
  lab.services().body(event("ADDED", service("web", 12)));
  for (int i = 0; i < 20; ++i) {
    lab.pass(Time(30'000));
    if (lab.slices().reader != nullptr) {
      lab.slices().head(503);
      lab.slices().end(End::whole);
    }
  }
  const auto told = lab.told();
  CHECK(has(told, "+Service a/web"));
  CHECK_FALSE(has(told, "synced"));
  CHECK_FALSE(has(told, "flush"));
}

TEST_CASE("SEM-17: an API without ServiceCIDRs is asked now and then, and holds nothing back") {
  Lab lab;
  lab.cidrs().head(404);
  lab.cidrs().body(status(404));
  lab.cidrs().end(End::whole);
  for (auto* line : {&lab.services(), &lab.slices(), &lab.nodes()}) {
    line->head();
    line->body(end_mark(9));
  }
  CHECK(has(lab.told(), "synced"));
  lab.pass(Time(30'000));
  CHECK(lab.cidrs().asked == 1);
  lab.pass(Time(60'000));
  REQUIRE(lab.cidrs().asked == 2);  // the server was upgraded
  lab.cidrs().head();
  lab.cidrs().body(
      event("ADDED",
            R"({"kind":"ServiceCIDR","apiVersion":"networking.k8s.io/v1","metadata":{"name":"extra",)"
            R"("resourceVersion":"12"},"spec":{"cidrs":["10.96.0.0/12"]}})") +
      end_mark(12));
  CHECK(lab.told() == "+ServiceCIDR extra 10.96.0.0/12;flush");
  CHECK(lab.troubles.empty());
}

TEST_CASE("REL-35: deletions come before additions of the same piece, an object's last state alone") {
  Lab lab;
  lab.sync(event("ADDED", service("old", 5)) + event("ADDED", service("z", 6)));
  lab.services().body(event("ADDED", service("new", 11)) + event("MODIFIED", service("z", 12, "10.0.0.7")) +
                      event("DELETED", service("old", 13)) + event("MODIFIED", service("z", 14, "10.0.0.8")) +
                      event("ADDED", service("brief", 15)) + event("DELETED", service("brief", 16)));
  CHECK(lab.told() ==
        "-Service a/brief;-Service a/old;+Service a/new 10.0.0.1 80;+Service a/z 10.0.0.8 80;flush");
}

TEST_CASE("REL-35: an endpoint that moves between slices of one piece is told in one burst") {
  Lab lab;
  lab.sync();
  lab.slices().body(event("ADDED", slice("one", 11, "10.1.0.1")));
  CHECK(lab.told() == "+EndpointSlice a/one of web 10.1.0.1;flush");
  lab.slices().body(event("ADDED", slice("two", 12, "10.1.0.1")) +
                    event("MODIFIED", slice("one", 13, "10.1.0.2")));
  CHECK(lab.told() == "+EndpointSlice a/one of web 10.1.0.2;+EndpointSlice a/two of web 10.1.0.1;flush");
}

TEST_CASE("REL-31: a relist tells the difference in one burst, and is not flushed before its end") {
  Lab lab;
  lab.sync(event("ADDED", service("gone", 5)) + event("ADDED", service("kept", 6)));
  lab.services().body(event("ERROR", status(410)));
  lab.pass(Time(1'000));
  REQUIRE(has(lab.services().request.target, "sendInitialEvents"));
  lab.services().head();
  lab.services().body(event("ADDED", service("kept", 6)) + event("ADDED", service("new", 20)));
  CHECK_FALSE(has(lab.told(), "flush"));
  lab.services().body(end_mark(21));
  CHECK(lab.told() == "-Service a/gone;flush");
}

TEST_CASE(
    "REL-30, SEM-72: nothing is forgotten while no server answers, and the first change comes after its "
    "return") {
  Lab lab;
  lab.sync(event("ADDED", service("web", 5)));
  for (auto& line : lab.lines) {
    line->end(End::cut);
  }
  Time longest{0};
  for (int i = 0; i < 300; ++i) {
    const auto before = lab.now;
    while (lab.services().reader == nullptr) {
      lab.pass(Time(50));
    }
    longest = std::max(longest, lab.now - before);
    for (auto& line : lab.lines) {
      if (line->reader != nullptr) {
        line->end(End::unreachable);
      }
    }
  }
  CHECK(lab.told().empty());
  CHECK(longest <= Time(1'500));
  while (lab.services().reader == nullptr) {
    lab.pass(Time(50));
  }
  lab.services().head();
  lab.services().body(fmt::format(R"({{"metadata":{{"resourceVersion":"12"}},"items":[]}})"));
  lab.services().end(End::whole);
  REQUIRE(has(lab.services().request.target, "resourceVersion=10"));
  lab.services().head();
  lab.services().body(event("MODIFIED", service("web", 12, "10.0.0.9")));
  CHECK(lab.told() == "+Service a/web 10.0.0.9 80;flush");
  // The log could bear it: four sentences in half a minute.
  CHECK(lab.troubles.size() <= 4 * (static_cast<std::size_t>(lab.now / Time(30'000)) + 1));
  CHECK_THAT(lab.troubles.at(0), ContainsSubstring("https://server"));
}

TEST_CASE("REL-33: a watch that is silent is hung up and resumed on a new connection") {
  Lab lab;
  lab.sync();
  lab.pass(Time(60'000));
  lab.services().body(event("ADDED", service("web", 11)));
  lab.pass(Patience{}.watch - Time(1'000));
  CHECK(lab.services().asked == 1);
  lab.pass(Time(3'000));
  CHECK(lab.services().asked == 2);
  CHECK(lab.services().request.connection == Connection::fresh);
  const auto of_services = [&lab] {
    return std::ranges::count_if(
        lab.troubles, [](const std::string& text) { return text.starts_with("/api/v1/services: "); });
  };
  CHECK(of_services() == 0);
  CHECK(lab.source->figures()[0].failures == 0);
  CHECK(lab.source->figures()[0].stream.quiet == 1);
  lab.pass(Patience{}.head + Time(3'000));  // and nobody answers
  CHECK(of_services() == 1);
  CHECK(lab.source->figures()[0].failures == 1);
}

TEST_CASE("SEM-88: updates that come together are told as one with the causes of all") {
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

TEST_CASE("k8s source: bytes are told to have come before what they bring") {
  Lab lab;
  lab.sync();
  const auto before = lab.sink.arrivals;
  const auto bytes = event("ADDED", service("web", 11));
  lab.services().body(bytes.substr(0, 40));
  CHECK(lab.sink.arrivals == before + 1);
  lab.services().body(bytes.substr(40));
  CHECK(lab.sink.arrivals == before + 2);
}

TEST_CASE("SEM-73: the Node is told when it changes, and when it is gone") {
  Lab lab;
  lab.sync();
  lab.nodes().body(event("ADDED", node(11)));
  CHECK(lab.told() == "+Node n1;flush");
  lab.nodes().body(event("DELETED", node(12)));
  CHECK(lab.told() == "-Node n1;flush");
}

TEST_CASE("REL-36: an object that cannot be read is a complaint that names it, and changes nothing else") {
  Lab lab;
  lab.sync(event("ADDED", service("web", 5)));
  lab.services().body(
      event(
          "MODIFIED",
          R"({"kind":"Service","apiVersion":"v1","metadata":{"name":"web","namespace":"a","resourceVersion":"11"},"spec":[]})") +
      event("ADDED", service("other", 12)));
  CHECK(lab.told() == "+Service a/other 10.0.0.1 80;flush");
  const auto complaints = lab.sink.take_complaints();
  REQUIRE(complaints.size() == 1);
  CHECK_THAT(complaints[0], ContainsSubstring("Service a/web"));
  CHECK(lab.source->figures()[0].problems == 1);
}

TEST_CASE("k8s source: figures") {
  Lab lab;
  lab.sync(event("ADDED", service("web", 5)));
  lab.services().end(End::cut);
  lab.pass(Time(2'000));
  lab.services().head(500);
  lab.services().end(End::whole);
  const auto figures = lab.source->figures();
  REQUIRE(figures.size() == 4);
  CHECK(figures[0].resource == "services");
  CHECK(figures[0].lists == 1);
  CHECK(figures[0].requests == 2);
  CHECK(figures[0].failures == 2);
  CHECK(figures[0].objects == 1);
  CHECK(figures[0].bytes > 300);
  CHECK(figures[1].silence == Time(2'000));
}

TEST_CASE("choice H: other Nodes are listed and watched for as long as a Service asks for their labels") {
  Lab lab;
  lab.sync();
  lab.services().body(
      event("ADDED", asking("near", 11, "kubernetes.io/hostname,topology.kubernetes.io/zone,*")));
  CHECK(lab.told() == "+Service a/near 10.0.0.1 80;flush");
  REQUIRE(lab.lines.size() == 4);
  lab.services().body(event("ADDED", asking("web", 12, "rack,*")));
  CHECK(lab.told() == "+Service a/web 10.0.0.1 80;flush");
  REQUIRE(lab.lines.size() == 5);
  CHECK(has(lab.peers().request.target, "fieldSelector=metadata.name%21%3Dn1"));
  CHECK(lab.peers().request.accept ==
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 5, R"("other":"x","rack":"r1")")) +
                   event("ADDED", peer("n3", 6, R"("other":"x")")));
  CHECK(lab.told() == "+Node n2 rack=r1;+Node n3");
  lab.peers().body(end_mark(12));
  CHECK(lab.told() == "labels known: rack;flush");
  lab.peers().body(event("MODIFIED", peer("n2", 13, R"("rack":"r2")")) +
                   event("DELETED", peer("n3", 14, "")));
  CHECK(lab.told() == "-Node n3;+Node n2 rack=r2;flush");
  CHECK(lab.source->figures().back().resource == "peer_nodes");
  lab.slices().body(event("ADDED", slice("web", 15, "10.1.0.1")) +
                    event("DELETED", slice("web", 16, "10.1.0.1")));
  lab.sink.take();
  CHECK(lab.peers().reader != nullptr);
  lab.services().body(event("MODIFIED", service("web", 17)));
  CHECK(lab.told() == "+Service a/web 10.0.0.1 80;labels known:;flush");
  CHECK(lab.peers().reader == nullptr);
  CHECK(lab.source->figures().size() == 4);
  lab.pass(Time(600'000));
  CHECK(lab.peers().asked == 1);
}

TEST_CASE("choice H: another label is known when all Nodes were listed anew, and those before stay known") {
  Lab lab;
  lab.sync(event("ADDED", asking("web", 5, "rack")));
  REQUIRE(lab.lines.size() == 5);
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 5, R"("rack":"r1","row":"7")")) +
                   event("ADDED", peer("n3", 6, R"("rack":"r1")")) + end_mark(12));
  CHECK(lab.told() == "+Node n2 rack=r1;+Node n3 rack=r1;labels known: rack;flush");
  lab.services().body(event("ADDED", asking("more", 13, "row")));
  CHECK(lab.told() == "+Service a/more 10.0.0.1 80;flush");
  CHECK(lab.peers().reader == nullptr);
  lab.pass(Time(1'000));
  REQUIRE(lab.lines.size() == 5);
  REQUIRE(lab.peers().asked == 2);
  REQUIRE(has(lab.peers().request.target, "sendInitialEvents"));
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 5, R"("rack":"r1","row":"7")")));
  CHECK(lab.told() == "+Node n2 rack=r1 row=7");
  lab.peers().body(end_mark(14));
  CHECK(lab.told() == "-Node n3;labels known: rack row;flush");
  lab.services().body(event("DELETED", asking("web", 15, "rack")));
  CHECK(lab.told() == "-Service a/web;labels known: row;flush");
  CHECK(lab.peers().reader != nullptr);
  lab.services().body(event("MODIFIED", asking("more", 16, "room")));
  CHECK(lab.told() == "+Service a/more 10.0.0.1 80;labels known:;flush");
}

TEST_CASE("choice H: while the list of Nodes is held, everything else goes on") {
  Lab lab;
  lab.services().head();
  lab.services().body(event("ADDED", asking("web", 5, "rack")) + end_mark(9));
  REQUIRE(lab.lines.size() == 5);
  for (auto* line : {&lab.slices(), &lab.nodes(), &lab.cidrs()}) {
    line->head();
    line->body(end_mark(9));
  }
  CHECK(lab.told() == "labels known:;+Service a/web 10.0.0.1 80;synced");
  for (int i = 0; i < 10; ++i) {
    lab.pass(Time(30'000));
    if (lab.peers().reader != nullptr) {
      lab.peers().head(403);
      lab.peers().end(End::whole);
    }
  }
  lab.services().end(End::cut);
  lab.sink.take();
  lab.pass(Time(9'000));
  lab.services().head();
  lab.services().body(fmt::format(R"({{"metadata":{{"resourceVersion":"12"}},"items":[]}})"));
  lab.services().end(End::whole);
  lab.services().head();
  lab.services().body(event("ADDED", service("other", 12)));
  CHECK(lab.told() == "+Service a/other 10.0.0.1 80;flush");
}

TEST_CASE("choice H: what a list that did not end told of labels is forgotten with them") {
  Lab lab;
  lab.sync(event("ADDED", asking("web", 5, "rack")));
  REQUIRE(lab.lines.size() == 5);
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 5, R"("rack":"r1")")));
  CHECK(lab.told() == "+Node n2 rack=r1");
  lab.services().body(event("MODIFIED", service("web", 13)));
  CHECK(lab.told() == "+Service a/web 10.0.0.1 80;labels known:;flush");
}

TEST_CASE("choice H: what a list told of labels is forgotten also when it is told as one of the past") {
  Lab lab;
  lab.sync(event("ADDED", asking("web", 5, "rack")));
  REQUIRE(lab.lines.size() == 5);
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 12, R"("rack":"r1")")) + end_mark(11));
  CHECK(lab.told() == "+Node n2 rack=r1;flush");
  lab.services().body(event("MODIFIED", service("web", 13)));
  CHECK(lab.told() == "+Service a/web 10.0.0.1 80;labels known:;flush");
}

TEST_CASE("choice H: when a label is dropped under way, all Nodes are listed anew for those that remain") {
  Lab lab;
  lab.sync(event("ADDED", asking("web", 5, "rack,row")));
  REQUIRE(lab.lines.size() == 5);
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 5, R"("rack":"r1","row":"7")")));
  CHECK(lab.told() == "+Node n2 rack=r1 row=7");
  lab.services().body(event("MODIFIED", asking("web", 13, "row")));
  CHECK(lab.told() == "+Service a/web 10.0.0.1 80;labels known:;flush");
  CHECK(lab.peers().reader == nullptr);
  lab.pass(Time(1'000));
  REQUIRE(lab.peers().asked == 2);
  REQUIRE(has(lab.peers().request.target, "sendInitialEvents"));
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 5, R"("rack":"r1","row":"7")")) + end_mark(14));
  CHECK(lab.told() == "+Node n2 row=7;labels known: row;flush");
}

TEST_CASE("choice H: where all labels that remain are known, the list under way goes on") {
  Lab lab;
  lab.sync(event("ADDED", asking("web", 5, "rack")));
  REQUIRE(lab.lines.size() == 5);
  lab.peers().head();
  lab.peers().body(end_mark(12));
  lab.services().body(event("MODIFIED", asking("web", 13, "rack,row")));
  lab.pass(Time(1'000));
  lab.peers().head();
  lab.peers().body(event("ADDED", peer("n2", 13, R"("rack":"r1","row":"7")")));
  lab.sink.take();
  lab.services().body(event("MODIFIED", asking("web", 14, "rack")));
  CHECK(lab.told() == "+Service a/web 10.0.0.1 80;labels known: rack;flush");
  CHECK(lab.peers().reader != nullptr);
  CHECK(lab.peers().asked == 2);
}

TEST_CASE("choice H: a list of Services under way does not end the watch of Nodes") {
  Lab lab;
  lab.sync(event("ADDED", asking("web", 5, "rack")));
  REQUIRE(lab.lines.size() == 5);
  lab.peers().head();
  lab.peers().body(end_mark(10));
  lab.services().body(event("ERROR", status(410)));
  lab.pass(Time(1'000));
  REQUIRE(has(lab.services().request.target, "sendInitialEvents"));
  lab.services().head();
  lab.services().body(event("ADDED", service("web", 12)));  // asks no more
  lab.sink.take();
  lab.peers().body(event("ADDED", peer("n2", 13, R"("rack":"r1")")));
  CHECK(lab.told() == "+Node n2 rack=r1;flush");
  lab.services().body(end_mark(14));
  CHECK(lab.told() == "labels known:;flush");
  CHECK(lab.peers().reader == nullptr);
}

// ---- Over sockets. ----

namespace {

/// A small API server: Services by streaming list and watch; the others are empty.
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
  std::vector<std::string> troubles;
  std::unique_ptr<ApiClient> client;
  std::unique_ptr<ApiSource> source;
  std::string all;
  Patience patience = [] {
    Patience quick;
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
                                         [this](std::string text) { troubles.push_back(std::move(text)); });
    source = std::make_unique<ApiSource>(
        ApiScope{.node = "n1", .service_proxy_name = "", .slice_selector = "", .encoding = ApiEncoding::json},
        real_world(context, *client, 7), sink,
        [this](std::string text) { troubles.push_back(std::move(text)); }, patience);
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
  CHECK(lab.troubles.empty());
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

TEST_CASE("REL-33, REL-34, REL-77 over sockets: trouble of every kind, and the next change still comes") {
  struct Row {
    const char* name;
    std::vector<Reply> replies;  ///< to what follows the first cut, in this order
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
    // Once it watches again, or has listed anew, the change is there.
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

TEST_CASE("choice H: a Service that comes does not make all agents list Nodes in the same moment") {
  Lab lab({.node = "n1", .service_proxy_name = "", .slice_selector = "", .encoding = ApiEncoding::json},
          {.crowd = Time(3'000)});
  lab.sync();
  lab.services().body(event("ADDED", asking("web", 12, "rack,*")));
  REQUIRE(lab.lines.size() == 5);
  CHECK(lab.peers().asked == 0);
  lab.pass(Time(3'000));
  CHECK(lab.peers().asked == 1);
}
