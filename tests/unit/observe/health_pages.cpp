// SPDX-License-Identifier: Apache-2.0
// The page at each path, and that the probes report pending input until it is handled.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <optional>
#include <vector>

#include "agent/observe/pages.hpp"
#include "agent/run/intake.hpp"

namespace {

using namespace lb::agent;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

/// A clock that the test advances.
struct Clock {
  Moment now{std::chrono::steady_clock::time_point(1000s),
             std::chrono::system_clock::time_point(1767323045s)};
  void pass(std::chrono::seconds time) {
    now.steady += time;
    now.wall += time;
  }
};

/// A model that records the changes reported to it.
struct Model : lb::k8s::Sink {
  std::string reported;
  void upsert(lb::k8s::Service service) override { reported += "+" + service.key.text() + " "; }
  void upsert(lb::k8s::EndpointSlice slice) override { reported += "+" + slice.key.text() + " "; }
  void upsert(lb::k8s::Node node) override { reported += "+" + node.name + " "; }
  void upsert(lb::k8s::ServiceCidr cidr) override { reported += "+" + cidr.name + " "; }
  void erase_service(const lb::k8s::ObjectKey& key) override { reported += "-" + key.text() + " "; }
  void erase_slice(const lb::k8s::ObjectKey& key) override { reported += "-" + key.text() + " "; }
  void erase_node(const std::string& name) override { reported += "-" + name + " "; }
  void erase_service_cidr(const std::string& name) override { reported += "-" + name + " "; }
  void complain(lb::k8s::Complaint complaint) override { reported += "!" + complaint.reason + " "; }
  void flush() override { reported += "flush "; }
  void synced() override { reported += "synced "; }
};

TEST_CASE("SEM-61: paths of the two servers") {
  Clock clock;
  Health health;
  Metrics metrics;
  Snapshot snapshot;
  snapshot.outcomes.assured = 17;
  Pages pages(
      health, metrics, [&] { return clock.now; }, [&] { return snapshot; },
      {"{}", {{"devices", "eth0"}, {"xdp", "auto"}}});

  CHECK(pages.health({"/healthz"}).status == 503);
  CHECK(pages.metrics({"/healthz"}).status == 503);
  health.applied(clock.now);
  CHECK(pages.health({"/healthz"}).status == 200);
  CHECK(pages.health({"/livez"}).status == 200);
  CHECK(pages.health({"/metrics"}).status == 404);
  CHECK(pages.health({"/"}).status == 404);
  CHECK(pages.metrics({"/proxyMode"}).body == "sluice");
  CHECK(pages.metrics({"/configz"}).body == "{}");
  CHECK(pages.metrics({"/configz"}).content_type == "application/json");
  CHECK(pages.health({"/configz"}).status == 404);
  CHECK_THAT(pages.metrics({"/other"}).body, ContainsSubstring("/metrics"));

  const auto scrape = pages.metrics({"/metrics"});
  CHECK(scrape.content_type == "text/plain; version=0.0.4; charset=utf-8");
  CHECK_THAT(scrape.body, ContainsSubstring("outcome=\"assured\"} 17\n"));
  CHECK_THAT(scrape.body, ContainsSubstring("kubeproxy_proxy_healthz_total{code=\"503\"} 2\n"));
  CHECK_THAT(scrape.body, ContainsSubstring("kubeproxy_proxy_livez_total{code=\"200\"} 1\n"));
}

TEST_CASE("SEM-61: /metrics/slis tells how the probes are and were") {
  const Clock clock;
  Health health;
  Metrics metrics;
  Pages pages(health, metrics, [&] { return clock.now; }, [] { return Snapshot(); }, {});
  health.applied(clock.now);
  health.eligibility(NodeEligibility::leaving);
  (void)pages.health({"/healthz"});
  (void)pages.health({"/healthz"});
  (void)pages.metrics({"/livez"});
  const auto page = pages.metrics({"/metrics/slis"});
  CHECK(page.content_type == "text/plain; version=0.0.4; charset=utf-8");
  CHECK_THAT(page.body, ContainsSubstring("# TYPE kubernetes_healthcheck gauge\n"
                                          "kubernetes_healthcheck{name=\"healthz\",type=\"healthz\"} 0\n"
                                          "kubernetes_healthcheck{name=\"livez\",type=\"livez\"} 1\n"));
  CHECK_THAT(page.body, ContainsSubstring("{name=\"healthz\",status=\"error\",type=\"healthz\"} 2\n"));
  CHECK_THAT(page.body, ContainsSubstring("{name=\"livez\",status=\"success\",type=\"livez\"} 1\n"));
}

TEST_CASE("SEM-61: /flagz and /statusz are kube-proxy's pages for people") {
  Clock clock;
  Health health;
  Metrics metrics;
  Pages pages(
      health, metrics, [&] { return clock.now; }, [] { return Snapshot(); },
      {"{}", {{"xdp", "auto"}, {"devices", "eth0"}}});
  const auto flags = pages.metrics({"/flagz"});
  CHECK(flags.content_type == "text/plain; charset=utf-8");
  CHECK_THAT(flags.body,
             ContainsSubstring("\nsluice flagz\nWarning: This endpoint is not meant to be machine"));
  CHECK(flags.body.ends_with("\ndevices=eth0\nxdp=auto\n"));
  clock.pass(3725s);
  const auto status = pages.metrics({"/statusz"});
  CHECK_THAT(status.body, ContainsSubstring("\nsluice statusz\nWarning: "));
  CHECK_THAT(status.body,
             ContainsSubstring("\nStarted: Fri Jan  2 03:04:05 UTC 2026\nUp: 1 hr 02 min 05 sec\n"));
  CHECK_THAT(status.body, ContainsSubstring("\nPaths: /configz /flagz "));
}

TEST_CASE("a Node of another name is not the own one, which is missed once all is listed") {
  Model model;
  Metrics metrics;
  Health health;
  Intake intake(model, "a", metrics, health, Moment::now, [] {});
  CHECK_FALSE(intake.any_node());
  lb::k8s::Node node;
  node.name = "b";
  intake.upsert(node);
  CHECK(intake.any_node());
  CHECK_FALSE(intake.own_node_is_missing());  // more Nodes may follow
  intake.synced();
  CHECK(intake.own_node_is_missing());
  intake.erase_node("b");
  node.name = "a";
  intake.upsert(node);
  CHECK_FALSE(intake.own_node_is_missing());
}

TEST_CASE("the intake passes everything on, in order") {
  Model model;
  Metrics metrics;
  Health health;
  const Clock clock;
  Intake intake(
      model, "a", metrics, health, [&] { return clock.now; }, [&] { model.reported += "settled "; });
  lb::k8s::Service service;
  service.key = {"default", "web"};
  lb::k8s::EndpointSlice slice;
  slice.key = {"default", "web-1"};
  lb::k8s::Node node;
  node.name = "a";
  intake.upsert(service);
  intake.upsert(slice);
  intake.upsert(node);
  intake.synced();
  CHECK_FALSE(intake.own_node_is_missing());
  intake.erase_slice(slice.key);
  intake.erase_service(service.key);
  intake.erase_node("a");
  CHECK(intake.own_node_is_missing());
  intake.complain({"", "", "bad"});
  intake.flush();
  CHECK(model.reported ==
        "+default/web +default/web-1 +a synced settled -default/web-1 -default/web -a !bad flush settled ");
  CHECK_THAT(metrics.render({}), ContainsSubstring("service_changes_total 2\n"));
  CHECK_THAT(metrics.render({}), ContainsSubstring("endpoint_changes_total 2\n"));
}

TEST_CASE("a burst is as old as the bytes of its first change") {
  struct Asking final : Model {
    void flush() override { seen.push_back(intake->burst()); }
    Intake* intake = nullptr;
    std::vector<std::optional<Moment>> seen;
  };
  Asking model;
  Metrics metrics;
  Health health;
  Clock clock;
  Intake intake(model, "a", metrics, health, [&] { return clock.now; }, [] {});
  model.intake = &intake;
  const auto begun = clock.now.steady;
  intake.arrived();  // a bookmark, or the start of an object
  clock.pass(5s);
  intake.arrived();
  clock.pass(1s);
  intake.upsert(lb::k8s::EndpointSlice{});
  clock.pass(5s);
  intake.arrived();
  intake.upsert(lb::k8s::Service{});
  intake.flush();
  REQUIRE(model.seen.size() == 1);
  REQUIRE(model.seen[0]);
  CHECK(model.seen[0]->steady == begun + 5s);
  CHECK_FALSE(intake.burst());
  clock.pass(60s);
  intake.erase_slice({"default", "web-1"});  // from a source that reports no arrival
  intake.flush();
  REQUIRE(model.seen.back());
  CHECK(model.seen.back()->steady == clock.now.steady);
  intake.flush();
  CHECK_FALSE(model.seen.back());
  CHECK_THAT(metrics.render({}), ContainsSubstring("endpoint_changes_pending 0\n"));
}

TEST_CASE("SEM-59, SEM-60: a Node that is leaving or was never seen gets no new connections, and lives") {
  Model model;
  Metrics metrics;
  Health health;
  const Clock clock;
  Intake intake(model, "a", metrics, health, [&] { return clock.now; }, [&] { health.applied(clock.now); });
  health.eligibility(NodeEligibility::unknown);
  health.applied(clock.now);
  const auto check = [&](unsigned code, const char* eligible) {
    CHECK(health.healthz(clock.now).status == code);
    CHECK_THAT(health.healthz(clock.now).body, ContainsSubstring(eligible));
    CHECK_THAT(health.healthz(clock.now).body, ContainsSubstring("\"healthy\":true"));
    CHECK(health.livez(clock.now).status == 200);
    CHECK(health.livez(clock.now).body.find("nodeEligible") == std::string::npos);
  };
  check(503, "\"nodeEligible\":false");
  const auto see = [&](const char* name, bool leaving) {
    lb::k8s::Node node;
    node.name = name;
    node.leaving = leaving;
    intake.upsert(node);
    intake.flush();
  };
  see("a", false);
  check(200, "\"nodeEligible\":true");
  see("b", true);
  check(200, "\"nodeEligible\":true");
  see("a", true);
  check(503, "\"nodeEligible\":false");
  intake.erase_node("a");
  check(503, "\"nodeEligible\":false");
  see("a", false);
  check(200, "\"nodeEligible\":true");
}

TEST_CASE("a change that is never applied fails the probe") {
  Model model;
  Metrics metrics;
  Health health;
  Clock clock;
  Intake intake(model, "a", metrics, health, [&] { return clock.now; }, [] {});
  health.applied(clock.now);
  intake.upsert(lb::k8s::Node{});
  clock.pass(59s);
  CHECK(health.healthy(clock.now));
  clock.pass(1s);
  CHECK_FALSE(health.healthy(clock.now));
}

}  // namespace
