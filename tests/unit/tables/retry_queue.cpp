// SPDX-License-Identifier: Apache-2.0
// Which plans wait to be written, and for how long.
#include "agent/tables/retry_queue.hpp"

#include <catch2/catch_test_macros.hpp>

#include "agent/tables/problem_reports.hpp"
#include "tests/unit/tables/fakes.hpp"

using lb::agent::ProblemReports;
using lb::agent::Progress;
using lb::agent::RetryQueue;
using namespace lb::tables_test;

namespace {

std::vector<std::string> names(const std::vector<lb::agent::PlanChange>& changes) {
  std::vector<std::string> names;
  for (const auto& change : changes) {
    names.push_back(change.service);
  }
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a service's last plan is kept until it is written, by what it waits for") {
  RetryQueue queue;
  queue.keep(change(service("web", 1, {1})), Progress::failed, 0);
  queue.keep(change(service("db", 2, {1, 2})), Progress::failed, 0);
  queue.keep(change(service("dns", 3, {1})), Progress::waiting, 7);
  CHECK(names(queue.with(Progress::failed)) == Names{"default/db", "default/web"});
  CHECK(names(queue.with(Progress::waiting)) == Names{"default/dns"});
  CHECK(queue.has_failed("default/web"));
  CHECK_FALSE(queue.has_failed("default/dns"));
  CHECK(queue.waiting_since("default/dns") == 7);
  CHECK_FALSE(queue.waiting_since("default/web"));

  queue.keep(change(service("web", 9, {1, 2, 3})), Progress::waiting, 9);
  CHECK(queue.waiting_since("default/web") == 9);
  CHECK_FALSE(queue.has_failed("default/web"));
  std::size_t backends = 0;
  queue.for_each_port([&](const auto& port) { backends += port.backends.size(); });
  CHECK(backends == 3 + 2 + 1);

  for (const auto* name : {"web", "db", "dns"}) {
    CHECK_FALSE(queue.empty());
    queue.keep(change(name, {}), Progress::written, 0);
  }
  CHECK(queue.empty());
  CHECK_FALSE(queue.has(Progress::failed));
}

TEST_CASE("the pause doubles with each retry up to a bound, and is short again after a success") {
  RetryQueue queue;
  CHECK(queue.pause().count() == 100);
  queue.note_retry();
  CHECK(queue.pause().count() == 200);
  for (int retry = 0; retry < 50; ++retry) {
    queue.note_retry();
  }
  CHECK(queue.pause().count() == 25'600);
  queue.note_room();
  CHECK(queue.pause().count() == 800);
  queue.note_success();
  queue.note_room();
  CHECK(queue.pause().count() == 100);
  queue.note_success();
  CHECK(queue.pause().count() == 100);
}

TEST_CASE("a problem is reported once, again where it changes, and again after its end") {
  std::vector<std::string> reported;
  ProblemReports problems([&](const lb::k8s::Complaint& complaint) {
    reported.push_back(complaint.object + ": " + complaint.reason);
  });
  problems.report("default/web", "Service default/web", "full");
  problems.report("default/web", "Service default/web", "full");
  problems.report("ranges", "Node", "full");
  problems.report("addresses", "Node", "full");
  CHECK(reported == Names{"Service default/web: full", "Node: full", "Node: full"});
  problems.report("ranges", "Node", "no memory");
  problems.end("default/web");
  problems.report("default/web", "Service default/web", "full");
  CHECK(reported.size() == 5);
  CHECK(reported.back() == "Service default/web: full");
}
