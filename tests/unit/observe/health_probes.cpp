// SPDX-License-Identifier: Apache-2.0
// The probes' verdicts over time, and their bodies as clients of kube-proxy parse them (SEM-59, 60, 63).
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <catch2/catch_test_macros.hpp>

#include "agent/observe/health.hpp"

namespace {

using namespace lb::agent;
using namespace std::chrono_literals;
namespace json = boost::json;

/// 2026-01-02T03:04:05Z plus that many seconds.
Moment at(std::chrono::seconds seconds) {
  return {std::chrono::steady_clock::time_point(1000s + seconds),
          std::chrono::system_clock::time_point(1767323045s + seconds)};
}

json::value body(const HttpResponse& response) { return json::parse(response.body); }

TEST_CASE("SEM-63: not ready before the first full write") {
  Health health;
  CHECK(health.healthz(at(0s)).status == 503);
  CHECK(health.livez(at(0s)).status == 200);
  health.queued(at(1s));
  CHECK(health.healthz(at(2s)).status == 503);
  health.applied(at(3s));
  CHECK(health.healthz(at(3s)).status == 200);
  CHECK(health.ready());
}

TEST_CASE("a change that waits too long makes it unhealthy, a written one heals it") {
  Health health;
  health.applied(at(0s));
  health.queued(at(10s));
  health.queued(at(60s));
  CHECK(health.healthz(at(69s)).status == 200);
  CHECK(health.healthz(at(70s)).status == 503);
  CHECK(health.livez(at(70s)).status == 503);
  health.applied(at(71s));
  CHECK(health.healthz(at(71s)).status == 200);
}

TEST_CASE("an idle agent stays healthy for ever") {
  Health health;
  health.applied(at(0s));
  CHECK(health.healthz(at(1000h)).status == 200);
}

TEST_CASE("a node that leaves is healthy, but not for load balancers") {
  Health health;
  health.applied(at(0s));
  health.eligibility(NodeEligibility::leaving);
  const auto response = health.healthz(at(1s));
  CHECK(response.status == 503);
  CHECK(body(response).at("nodeEligible").as_bool() == false);
  CHECK(body(response).at("healthy").as_bool() == true);
  CHECK(health.livez(at(1s)).status == 200);
}

TEST_CASE("bodies") {
  Health health;
  CHECK(body(health.healthz(at(0s))).at("lastUpdated").as_string() == "0001-01-01T00:00:00Z");
  health.applied(at(0s));
  health.queued(at(1s));
  const auto good = body(health.healthz(at(5s)));
  CHECK(good.at("lastUpdated").as_string() == "2026-01-02T03:04:10Z");
  CHECK(good.at("currentTime").as_string() == "2026-01-02T03:04:10Z");
  CHECK(good.at("nodeEligible").as_bool() == true);
  CHECK(good.at("status").at("IPv6").at("healthy").as_bool() == true);
  const auto bad = body(health.healthz(at(100s)));
  CHECK(bad.at("lastUpdated").as_string() == "2026-01-02T03:04:05Z");
  CHECK(bad.at("status").at("IPv4").at("lastUpdated").as_string() == "2026-01-02T03:04:05Z");
  CHECK(bad.at("healthy").as_bool() == false);
  CHECK_FALSE(body(health.livez(at(5s))).as_object().contains("nodeEligible"));
  CHECK(health.livez(at(5s)).content_type == "application/json");
}

TEST_CASE("a jump of the wall clock changes no verdict (REL-42)") {
  Health health;
  health.applied(at(0s));
  health.queued(at(1s));
  auto jumped = at(2s);
  jumped.wall += std::chrono::hours(1000);
  CHECK(health.healthz(jumped).status == 200);
}

}  // namespace
