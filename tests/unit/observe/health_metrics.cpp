// SPDX-License-Identifier: Apache-2.0
// The metrics of a scrape: every outcome with its count, kube-proxy's names with kube-proxy's buckets.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cmath>
#include <string>

#include "agent/observe/metrics.hpp"

namespace {

using namespace lb::agent;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

const std::chrono::system_clock::time_point noon(1767355200s);

TEST_CASE("SEM-66: every outcome is a counter with its name, action and meaning") {
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

TEST_CASE("SEM-65, SEM-81: how full the maps are") {
  Snapshot snapshot;
  snapshot.fills = {{"lb_slots", 6, 4096}, {"lb_backends", 3, 1024}};
  const auto text = Metrics().render(snapshot);
  CHECK_THAT(text, ContainsSubstring("sluice_map_entries{map=\"lb_slots\"} 6\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_map_limit{map=\"lb_slots\"} 4096\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_map_entries{map=\"lb_backends\"} 3\n"));
}

TEST_CASE("how old the counts of flow tables are, once they were counted") {
  Snapshot snapshot;
  CHECK(Metrics().render(snapshot).find("sluice_flow_count_age_seconds") == std::string::npos);
  snapshot.flows_age = 1500ms;
  CHECK_THAT(Metrics().render(snapshot), ContainsSubstring("sluice_flow_count_age_seconds 1.5\n"));
}

TEST_CASE("REL-20: frames that devices lost after XDP, by device") {
  CHECK(Metrics().render({}).find("sluice_xdp_frames_lost_total") == std::string::npos);
  Snapshot snapshot;
  snapshot.frames_lost = {{"eth0", 12}, {"eth1", 0}};
  const auto text = Metrics().render(snapshot);
  CHECK_THAT(text, ContainsSubstring("# TYPE sluice_xdp_frames_lost_total counter"));
  CHECK_THAT(text, ContainsSubstring("sluice_xdp_frames_lost_total{device=\"eth0\"} 12\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_xdp_frames_lost_total{device=\"eth1\"} 0\n"));
}

TEST_CASE("REL-99: backends that are reached by devices that are not served, while there are any") {
  CHECK(Metrics().render({}).find("sluice_unserved_backends") == std::string::npos);
  Snapshot snapshot;
  snapshot.unserved_backends = {{"eth1", 3}};
  CHECK_THAT(Metrics().render(snapshot), ContainsSubstring("sluice_unserved_backends{device=\"eth1\"} 3\n"));
}

TEST_CASE("ports that another process holds, by what they are for") {
  Metrics metrics;
  metrics.ports_waiting("health", 1);
  metrics.ports_waiting("health-check", 2);
  CHECK_THAT(metrics.render({}), ContainsSubstring("sluice_ports_waiting{server=\"health\"} 1\n"));
  CHECK_THAT(metrics.render({}), ContainsSubstring("sluice_ports_waiting{server=\"health-check\"} 2\n"));
  metrics.ports_waiting("health", 0);
  CHECK_THAT(metrics.render({}), ContainsSubstring("sluice_ports_waiting{server=\"health\"} 0\n"));
}

TEST_CASE("whether kube-proxy's rules keep --drop-unallocated from working") {
  Metrics metrics;
  CHECK_THAT(metrics.render({}), ContainsSubstring("sluice_kube_proxy_rules 0\n"));
  metrics.kube_proxy(KubeProxy::present);
  CHECK_THAT(metrics.render({}), ContainsSubstring("sluice_kube_proxy_rules 1\n"));
  metrics.kube_proxy(KubeProxy::absent);
  CHECK_THAT(metrics.render({}), ContainsSubstring("sluice_kube_proxy_rules 0\n"));
}

TEST_CASE("REL-80: what the API reported, and for how long it has been silent") {
  CHECK(Metrics().render({}).find("sluice_api_") == std::string::npos);
  Snapshot snapshot;
  snapshot.api = {{.resource = "services",
                   .lists = 2,
                   .requests = 5,
                   .failures = 3,
                   .bytes = 4096,
                   .problems = 1,
                   .objects = 7,
                   .stream = {.watches = 4, .quiet = 2, .unreadable = 6},
                   .silence = 90s}};
  const auto text = Metrics().render(snapshot);
  CHECK_THAT(text, ContainsSubstring("sluice_api_lists_total{resource=\"services\"} 2\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_api_requests_total{resource=\"services\"} 5\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_api_failures_total{resource=\"services\"} 3\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_api_received_bytes_total{resource=\"services\"} 4096\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_api_object_problems_total{resource=\"services\"} 1\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_api_watches_total{resource=\"services\"} 4\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_api_quiet_watches_total{resource=\"services\"} 2\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_api_decode_errors_total{resource=\"services\"} 6\n"));
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
  metrics.published(Sync::partial, 3ms);
  const auto after = metrics.render({});
  CHECK_THAT(after, ContainsSubstring("kubeproxy_sync_proxy_rules_endpoint_changes_pending 0\n"));
  CHECK_THAT(after, ContainsSubstring("kubeproxy_sync_proxy_rules_endpoint_changes_total 2\n"));
  CHECK_THAT(after, ContainsSubstring("kubeproxy_sync_proxy_rules_service_changes_total 1\n"));
  metrics.changed(Subject::service, noon);
  metrics.in_sync();
  CHECK_THAT(metrics.render({}), ContainsSubstring("kubeproxy_sync_proxy_rules_service_changes_pending 0\n"));
}

/// Milliseconds after noon.
long last_sync(const Metrics& metrics) {
  const std::string name = "\nkubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"} ";
  const auto text = metrics.render({});
  const auto since = std::stod(text.substr(text.find(name) + name.size())) -
                     std::chrono::duration<double>(noon.time_since_epoch()).count();
  return std::lround(since * 1000);
}

TEST_CASE("SEM-64: a change is stamped when it was written, not when the agent's other work was done") {
  Metrics metrics;
  metrics.changed(Subject::endpoints, noon);
  metrics.published(Sync::partial, 1ms);
  metrics.synced(noon + 11ms);
  metrics.synced(noon + 21ms);
  CHECK(last_sync(metrics) == 11);
  metrics.synced(noon + 5s);  // for another reason, without a change
  CHECK(last_sync(metrics) == 11);
  metrics.published(Sync::partial, 1ms);  // the plan's next turn
  metrics.synced(noon + 5100ms);
  CHECK(last_sync(metrics) == 5100);
  metrics.changed(Subject::endpoints, noon + 6s);  // needs no write
  metrics.synced(noon + 6001ms);
  CHECK(last_sync(metrics) == 6001);
  metrics.published(Sync::partial, 1ms);  // refused by the kernel; a retry succeeds
  metrics.synced(noon + 9s);
  CHECK(last_sync(metrics) == 9000);
  Metrics idle;  // without objects
  idle.synced(noon + 1s);
  CHECK(last_sync(idle) == 1000);
}

std::string programming(const char* family, const char* limit, int count) {
  return fmt::format(
      "kubeproxy_network_programming_duration_seconds_bucket{{ip_family=\"{}\",le=\"{}\"}} {}\n", family,
      limit, count);
}

TEST_CASE("SEM-64: from the cause to the maps, by family and in kube-proxy's buckets") {
  Metrics metrics;
  metrics.programmed(lb::k8s::Family::ipv4, 300ms);
  metrics.programmed(lb::k8s::Family::ipv4, 62s);
  metrics.programmed(lb::k8s::Family::ipv4, 20min);
  metrics.programmed(lb::k8s::Family::ipv6, -2s);  // the other clock is ahead of ours
  const auto text = metrics.render({});
  CHECK_THAT(text, ContainsSubstring(programming("IPv4", "0.25", 0)));
  CHECK_THAT(text, ContainsSubstring(programming("IPv4", "0.5", 1)));
  for (const char* limit : {"1", "2", "59", "60"}) {
    CHECK_THAT(text, ContainsSubstring(programming("IPv4", limit, 1)));
  }
  for (const char* limit : {"65", "115", "120", "150", "300"}) {
    CHECK_THAT(text, ContainsSubstring(programming("IPv4", limit, 2)));
  }
  CHECK_THAT(text, ContainsSubstring(programming("IPv4", "+Inf", 3)));
  CHECK_THAT(text, ContainsSubstring(programming("IPv6", "0.25", 1)));
  std::size_t buckets = 0;
  for (auto at = text.find("programming_duration_seconds_bucket{ip_family=\"IPv4\""); at != std::string::npos;
       at = text.find("programming_duration_seconds_bucket{ip_family=\"IPv4\"", at + 1)) {
    ++buckets;
  }
  CHECK(buckets == 81);  // 2 + 59 + 12 + 7 and the infinite one
}

TEST_CASE("from the arrival of a change to the maps") {
  Metrics metrics;
  metrics.changes_written(900us);
  const auto text = metrics.render({});
  CHECK_THAT(text, ContainsSubstring("sluice_change_seconds_bucket{le=\"0.0009765625\"} 1\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_change_seconds_bucket{le=\"0.00048828125\"} 0\n"));
}

TEST_CASE("objects, extents, and what is given up") {
  Snapshot snapshot;
  snapshot.fills = {{"lb_slots", 6, 4096, 5}, {"lb_frontends", 3, 1024}};
  snapshot.extents = {.used = 4, .longest_free = 4000};
  snapshot.objects.services = 2;
  snapshot.objects.slices = 3;
  snapshot.objects.endpoints = 16;
  snapshot.objects.lost_frontends = 1;
  snapshot.objects.no_local.internal = {7, 8};
  snapshot.objects.no_local.external = {9, 10};
  const auto text = Metrics().render(snapshot);
  CHECK_THAT(text, ContainsSubstring("sluice_services 2\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_endpoint_slices 3\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_endpoints 16\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_frontends_lost 1\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_extents 4\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_longest_free_extent 4000\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_map_retired{map=\"lb_slots\"} 5\n"));
  CHECK(text.find("sluice_map_retired{map=\"lb_frontends\"}") == std::string::npos);
  const std::string no_local = "kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family=";
  CHECK_THAT(text, ContainsSubstring("# TYPE kubeproxy_sync_proxy_rules_no_local_endpoints_total gauge"));
  CHECK_THAT(text, ContainsSubstring(no_local + "\"IPv4\",traffic_policy=\"internal\"} 7\n"));
  CHECK_THAT(text, ContainsSubstring(no_local + "\"IPv6\",traffic_policy=\"external\"} 10\n"));
}

TEST_CASE("SEM-67: service ports one by one, where that was asked for") {
  CHECK(Metrics().render({}).find("sluice_service_") == std::string::npos);
  Snapshot snapshot;
  snapshot.services = {
      {.key = {"default/web:http", LB_TCP, LB_IPV4}, .cluster = {3, 2}, .local = ServiceStats::Set{1, 1}},
      {.key = {"kube-system/dns", LB_UDP, LB_IPV6}, .cluster = {0, 0}, .local = std::nullopt}};
  snapshot.services_left_out = 4;
  const auto text = Metrics().render(snapshot);
  const std::string web =
      "{ip_family=\"IPv4\",namespace=\"default\",port=\"http\",protocol=\"TCP\",service=\"web\",set=";
  const std::string dns =
      "{ip_family=\"IPv6\",namespace=\"kube-system\",port=\"\",protocol=\"UDP\",service=\"dns\",set=";
  CHECK_THAT(text, ContainsSubstring("sluice_service_backends_eligible" + web + "\"cluster\"} 3\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_service_backends_programmed" + web + "\"cluster\"} 2\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_service_backends_programmed" + web + "\"local\"} 1\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_service_backends_programmed" + dns + "\"cluster\"} 0\n"));
  CHECK(text.find(dns + "\"local\"") == std::string::npos);
  CHECK_THAT(text, ContainsSubstring("sluice_service_metrics_left_out 4\n"));
}

TEST_CASE("durations under kube-proxy's name and buckets") {
  Metrics metrics;
  metrics.published(Sync::full, 3ms);
  metrics.synced(noon);
  const auto text = metrics.render({});
  CHECK_THAT(text, ContainsSubstring(
                       "kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 1\n"));
  CHECK_THAT(text, ContainsSubstring(
                       "kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 0\n"));
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

TEST_CASE("requests to the API and the process itself under the names that monitoring knows") {
  Metrics metrics;
  const auto request = [&](std::string_view method, unsigned status, bool is_watch) {
    metrics.requested(
        {.host = "10.0.0.1:6443", .method = method, .is_watch = is_watch, .status = status, .took = 30ms});
  };
  request("GET", 200, false);
  request("GET", 200, true);
  request("POST", 403, false);
  request("GET", 0, false);
  const auto text = metrics.render({});
  const std::string total = "rest_client_requests_total{code=";
  const std::string host = ",host=\"10.0.0.1:6443\",method=";
  CHECK_THAT(text, ContainsSubstring(total + "\"200\"" + host + "\"GET\"} 2\n"));
  CHECK_THAT(text, ContainsSubstring(total + "\"403\"" + host + "\"POST\"} 1\n"));
  CHECK_THAT(text, ContainsSubstring(total + "\"<error>\"" + host + "\"GET\"} 1\n"));
  const std::string times =
      "rest_client_request_duration_seconds_bucket{host=\"10.0.0.1:6443\",verb=\"GET\",le=";
  CHECK_THAT(text, ContainsSubstring(times + "\"0.025\"} 0\n"));
  CHECK_THAT(text, ContainsSubstring(times + "\"0.1\"} 2\n"));
  for (const auto* name :
       {"process_cpu_seconds_total", "process_start_time_seconds", "process_resident_memory_bytes",
        "process_virtual_memory_bytes", "process_open_fds", "process_max_fds"}) {
    CHECK_THAT(text, ContainsSubstring(fmt::format("\n{} ", name)));
  }
}

}  // namespace
