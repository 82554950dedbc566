// SPDX-License-Identifier: Apache-2.0
// A reflector with a record of its requests and reported objects, and helpers that write responses.
#pragma once

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <utility>
#include <vector>

#include "k8s/watch/reflector.hpp"

namespace lb::k8s::test {

class Record final : public Listener {
 public:
  void upsert(Object object) override { lines.push_back("+" + std::get<Service>(object).key.name); }
  void erase(Kind /*kind*/, const ObjectKey& key) override { lines.push_back("-" + key.name); }
  void complain(Complaint complaint) override { lines.push_back("!" + complaint.object); }
  FailureReport failure(std::string message) override {
    failures.push_back(std::move(message));
    return FailureReport::reported;
  }
  void listed(Kind /*kind*/) override { lines.emplace_back("listed"); }
  std::string take() {
    const auto text = fmt::format("{}", fmt::join(lines, " "));
    lines.clear();
    return text;
  }

  std::vector<std::string> lines;
  std::vector<std::string> failures;
};

inline std::string object(const std::string& name, int version) {
  return fmt::format(
      R"({{"kind":"Service","apiVersion":"v1","metadata":{{"name":"{}","namespace":"a","resourceVersion":"{}"}}}})",
      name, version);
}

inline std::string event(const std::string& type, const std::string& body) {
  return fmt::format(R"({{"type":"{}","object":{}}})", type, body) + "\n";
}

inline std::string added(const std::string& name, int version) {
  return event("ADDED", object(name, version));
}

inline std::string mark(int version, const std::string& annotations = "") {
  return event("BOOKMARK", fmt::format(R"({{"kind":"Service","metadata":{{"resourceVersion":"{}"{}}}}})",
                                       version, annotations));
}

inline std::string end_mark(int version) {
  return mark(version, R"(,"annotations":{"k8s.io/initial-events-end":"true"})");
}

inline std::string page(int version, const std::string& more, const std::string& items) {
  return fmt::format(
      R"({{"kind":"ServiceList","metadata":{{"resourceVersion":"{}","continue":"{}"}},"items":[{}]}})",
      version, more, items);
}

inline std::string status(int code) {
  return fmt::format(R"({{"kind":"Status","code":{},"message":"because"}})", code);
}

/// A reflector whose clock advances to its deadlines.
struct Lab {
  Record record;
  Time now{1'000};
  Reflector reflector{{Kind::service, "/api/v1/services", "!x", "a!=b"}, ApiEncoding::json, {}, 7, record};

  /// The next request's target; advances the clock until there is one.
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
  ReadControl give(const std::string& bytes, unsigned code = 200) {
    auto control = reflector.head({code, "application/json", std::nullopt}, now);
    return control == ReadControl::proceed ? reflector.body(bytes, now) : control;
  }
  /// Sends more of the open stream; the record shows the effects.
  void more(const std::string& bytes) { (void)reflector.body(bytes, now); }
  /// Sends a whole response and its end.
  void answer(const std::string& bytes, End how = End::complete, unsigned code = 200) {
    const auto control = give(bytes, code);
    reflector.end(control == ReadControl::stop ? End::stopped : how, now);
  }
  /// Sends a list of these events, and leaves its stream open.
  void list(const std::string& events, int version) {
    ask();
    REQUIRE(give(events + end_mark(version)) == ReadControl::proceed);
    record.take();
  }

  bool fresh = false;
  Time waited{0};
};

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace lb::k8s::test
