// SPDX-License-Identifier: Apache-2.0
// Objects and events as an API server writes them, and the source with the test's own connections, alarms and
// clock.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "k8s/watch/api_runtime.hpp"
#include "k8s/watch/api_source.hpp"
#include "tests/unit/k8s/support.hpp"

namespace lb::k8s::testing {

inline std::string service(const std::string& name, int version, const std::string& address = "10.0.0.1") {
  return fmt::format(
      R"({{"kind":"Service","apiVersion":"v1","metadata":{{"name":"{}","namespace":"a","resourceVersion":"{}"}},)"
      R"("spec":{{"clusterIP":"{}","clusterIPs":["{}"],"ipFamilies":["IPv4"],"ports":[{{"port":80}}]}}}})",
      name, version, address, address);
}

/// A Service with the annotation for these topology keys.
inline std::string asking(const std::string& name, int version, const std::string& keys) {
  auto text = service(name, version);
  const std::string mark = R"("metadata":{)";
  return text.insert(text.find(mark) + mark.size(),
                     fmt::format(R"("annotations":{{"sluice.lb/topology-keys":"{}"}},)", keys));
}

/// A Node as the API returns it to a request for metadata only.
inline std::string peer(const std::string& name, int version, const std::string& labels) {
  return fmt::format(
      R"({{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{{"name":"{}",)"
      R"("resourceVersion":"{}","labels":{{{}}}}}}})",
      name, version, labels);
}

inline std::string slice(const std::string& name, int version, const std::string& address) {
  return fmt::format(
      R"({{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{{"name":"{}","namespace":"a",)"
      R"("resourceVersion":"{}","labels":{{"kubernetes.io/service-name":"web"}}}},"addressType":"IPv4",)"
      R"("ports":[{{"name":"","port":8080}}],"endpoints":[{{"addresses":["{}"]}}]}})",
      name, version, address);
}

inline std::string node(int version) {
  return fmt::format(
      R"({{"kind":"Node","apiVersion":"v1","metadata":{{"name":"n1","resourceVersion":"{}"}}}})", version);
}

inline std::string event(const std::string& type, const std::string& object) {
  return fmt::format(R"({{"type":"{}","object":{}}})", type, object) + "\n";
}

inline std::string end_mark(int version) {
  return event("BOOKMARK", fmt::format(R"({{"metadata":{{"resourceVersion":"{}","annotations":)"
                                       R"({{"k8s.io/initial-events-end":"true"}}}}}})",
                                       version));
}

inline std::string status(int code) {
  return fmt::format(R"({{"kind":"Status","apiVersion":"v1","code":{},"message":"because"}})", code);
}

/// A connection whose server side is the test.
struct FakeConnection {
  ApiRequest request;
  ResponseHandler* reader = nullptr;
  std::size_t asked = 0;

  void head(unsigned code = 200) {
    REQUIRE(reader != nullptr);
    REQUIRE(reader->head({code, "application/json", std::nullopt}) == ReadControl::proceed);
  }
  void body(const std::string& bytes) {
    REQUIRE(reader != nullptr);
    if (reader->body(bytes) == ReadControl::stop) {
      end(End::stopped);
    }
  }
  void end(End how) {
    REQUIRE(reader != nullptr);
    std::exchange(reader, nullptr)->end(how, "https://server");
  }
};

/// A source and its connections, one per resource, in the order of api_resources(). By default it drops
/// labels of other Nodes as soon as no Service asks for them.
struct Lab {
  explicit Lab(ApiScope scope = {.node = "n1",
                                 .service_proxy_name = "",
                                 .slice_selector = "",
                                 .encoding = ApiEncoding::json},
               Timeouts timeouts = {.fleet_jitter = Time(0), .labels = Time(0)}) {
    ApiRuntime runtime;
    runtime.connection = [this] {
      return std::make_unique<Connection>(*connections.emplace_back(std::make_unique<FakeConnection>()));
    };
    runtime.alarm = [this] {
      return std::make_unique<TestAlarm>(*alarms.emplace_back(std::make_unique<Bell>()));
    };
    runtime.now = [this] { return now; };
    source = std::make_unique<ApiSource>(
        scope, std::move(runtime), sink, [this](std::string text) { failures.push_back(std::move(text)); },
        timeouts);
    source->start();
  }

  FakeConnection& services() { return *connections[0]; }
  FakeConnection& slices() { return *connections[1]; }
  FakeConnection& nodes() { return *connections[2]; }
  FakeConnection& cidrs() { return *connections[3]; }
  FakeConnection& peers() { return *connections.back(); }

  /// Advances the clock; alarms fire at their times until `end`.
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
  /// Completes all lists, empty except for these Services, so that the source is in sync.
  void sync(const std::string& events = "", int version = 10) {
    for (auto* connection : {&services(), &slices(), &nodes(), &cidrs()}) {
      connection->head();
      connection->body((connection == &services() ? events : "") + end_mark(version));
    }
    sink.take();
  }
  std::string reported() { return fmt::format("{}", fmt::join(sink.take(), ";")); }

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
  class Connection final : public ApiConnection {
   public:
    explicit Connection(FakeConnection& fake) : fake_(fake) {}
    ~Connection() override { fake_.reader = nullptr; }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    void ask(const ApiRequest& request, ResponseHandler& reader) override {
      REQUIRE(fake_.reader == nullptr);
      fake_.request = request;
      fake_.reader = &reader;
      ++fake_.asked;
    }
    void cancel() override { fake_.reader = nullptr; }
    [[nodiscard]] std::string server() const override { return "https://server"; }

   private:
    FakeConnection& fake_;
  };

  Time now{1'000};
  RecordingSink sink;
  std::vector<std::string> failures;
  std::vector<std::unique_ptr<FakeConnection>> connections;
  std::vector<std::unique_ptr<Bell>> alarms;
  std::unique_ptr<ApiSource> source;
};

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace lb::k8s::testing
