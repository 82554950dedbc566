// What a scrape shows: every outcome with its figure, kube-proxy's names with kube-proxy's buckets.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "agent/metrics.hpp"

namespace {

using namespace lb::agent;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

const std::chrono::system_clock::time_point noon(1767355200s);

TEST_CASE("every outcome is a counter with its name, action and meaning") {
  Snapshot snapshot;
  std::uint64_t figure = 100;
  for (const auto& outcome : outcomes) {
    snapshot.outcomes.*outcome.count = ++figure;
  }
  const auto text = Metrics().render(snapshot);
  CHECK_THAT(text, ContainsSubstring("# TYPE sluice_outcomes_total counter"));
  figure = 100;
  for (const auto& outcome : outcomes) {
    CHECK_THAT(text,
               ContainsSubstring(fmt::format("sluice_outcomes_total{{action=\"{}\",outcome=\"{}\"}} {}\n",
                                             outcome.action, outcome.name, ++figure)));
    CHECK_THAT(text, ContainsSubstring(fmt::format("{}: {}", outcome.name, outcome.meaning)));
  }
}

TEST_CASE("how full the maps are") {
  Snapshot snapshot;
  snapshot.fills = {{"lb_slots", 6, 4096}, {"lb_backends", 3, 1024}};
  const auto text = Metrics().render(snapshot);
  CHECK_THAT(text, ContainsSubstring("sluice_map_entries{map=\"lb_slots\"} 6\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_map_limit{map=\"lb_slots\"} 4096\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_map_entries{map=\"lb_backends\"} 3\n"));
}

TEST_CASE("REL-80: what the API told, and for how long it has been silent") {
  CHECK(Metrics().render({}).find("sluice_api_") == std::string::npos);
  Snapshot snapshot;
  snapshot.api = {{.resource = "services",
                   .lists = 2,
                   .requests = 5,
                   .failures = 3,
                   .bytes = 4096,
                   .problems = 1,
                   .objects = 7,
                   .silence = 90s}};
  const auto text = Metrics().render(snapshot);
  CHECK_THAT(text, ContainsSubstring("sluice_api_lists_total{resource=\"services\"} 2\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_api_requests_total{resource=\"services\"} 5\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_api_failures_total{resource=\"services\"} 3\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_api_received_bytes_total{resource=\"services\"} 4096\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_api_object_problems_total{resource=\"services\"} 1\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_api_objects{resource=\"services\"} 7\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_api_silence_seconds{resource=\"services\"} 90\n"));
}

TEST_CASE("changes are pending until they are published") {
  Metrics metrics;
  metrics.changed(Subject::service, noon);
  metrics.changed(Subject::endpoints, noon);
  metrics.changed(Subject::endpoints, noon + 1s);
  const auto before = metrics.render({});
  CHECK_THAT(before, ContainsSubstring("kubeproxy_sync_proxy_rules_service_changes_pending 1\n"));
  CHECK_THAT(before, ContainsSubstring("kubeproxy_sync_proxy_rules_endpoint_changes_pending 2\n"));
  metrics.published(3ms, noon + 2s);
  const auto after = metrics.render({});
  CHECK_THAT(after, ContainsSubstring("kubeproxy_sync_proxy_rules_endpoint_changes_pending 0\n"));
  CHECK_THAT(after, ContainsSubstring("kubeproxy_sync_proxy_rules_endpoint_changes_total 2\n"));
  CHECK_THAT(after, ContainsSubstring("kubeproxy_sync_proxy_rules_service_changes_total 1\n"));
}

TEST_CASE("durations under kube-proxy's name and buckets") {
  Metrics metrics;
  metrics.published(3ms, noon);
  const auto text = metrics.render({});
  const std::string name = "kubeproxy_sync_proxy_rules_duration_seconds";
  for (const std::string family : {"IPv4", "IPv6"}) {
    CHECK_THAT(text, ContainsSubstring(name + "_bucket{ip_family=\"" + family + "\",le=\"0.002\"} 0\n"));
    CHECK_THAT(text, ContainsSubstring(name + "_bucket{ip_family=\"" + family + "\",le=\"0.004\"} 1\n"));
    CHECK_THAT(text, ContainsSubstring(name + "_bucket{ip_family=\"" + family + "\",le=\"16.384\"} 1\n"));
  }
  CHECK_THAT(text, ContainsSubstring("sluice_publish_seconds_count 1\n"));
}

TEST_CASE("probes, complaints and retries are counted") {
  Metrics metrics;
  metrics.probed(Probe::healthz, 200);
  metrics.probed(Probe::healthz, 503);
  metrics.probed(Probe::healthz, 503);
  metrics.probed(Probe::livez, 200);
  metrics.complained();
  metrics.retried();
  metrics.retried();
  const auto text = metrics.render({});
  CHECK_THAT(text, ContainsSubstring("kubeproxy_proxy_healthz_total{code=\"200\"} 1\n"));
  CHECK_THAT(text, ContainsSubstring("kubeproxy_proxy_healthz_total{code=\"503\"} 2\n"));
  CHECK_THAT(text, ContainsSubstring("kubeproxy_proxy_livez_total{code=\"200\"} 1\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_complaints_total 1\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_write_retries_total 2\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_build_info{version=\"" SLUICE_VERSION "\"} 1\n"));
}

}  // namespace
