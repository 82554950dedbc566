// SPDX-License-Identifier: Apache-2.0
// One function for each group of metrics.
#include "agent/observe/snapshot_metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "agent/observe/process_stats.hpp"
#include "maps/text.hpp"

namespace lb::agent {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;

MetricFamily make_family(const char* name, std::string help, prometheus::MetricType type) {
  MetricFamily family;
  family.name = name;
  family.help = std::move(help);
  family.type = type;
  return family;
}

MetricFamily outcome_family(const lb_stats& stats) {
  std::string help = "Outcomes of packets and socket calls";
  auto family = make_family("sluice_outcomes_total", "", prometheus::MetricType::Counter);
  for (const auto& outcome : outcomes) {
    fmt::format_to(std::back_inserter(help), "; {}: {}", outcome.name, outcome.meaning);
    ClientMetric metric;
    metric.label = {{"action", std::string(outcome.action)}, {"outcome", std::string(outcome.name)}};
    metric.counter.value = static_cast<double>(stats.*outcome.count);
    family.metric.push_back(std::move(metric));
  }
  family.help = std::move(help);
  return family;
}

MetricFamily fill_family(const char* name, const char* help, const std::vector<Fill>& fills,
                         std::uint64_t Fill::* figure) {
  auto family = make_family(name, help, prometheus::MetricType::Gauge);
  for (const auto& fill : fills) {
    ClientMetric metric;
    metric.label = {{"map", std::string(fill.map)}};
    metric.gauge.value = static_cast<double>(fill.*figure);
    family.metric.push_back(std::move(metric));
  }
  return family;
}

using prometheus::MetricType;

/// Adds a metric by device; omits the metric if no device has a count.
void add_by_device(std::vector<MetricFamily>& all, MetricFamily family,
                   const std::map<std::string, std::uint64_t>& counts) {
  if (counts.empty()) {
    return;
  }
  for (const auto& [device, count] : counts) {
    ClientMetric metric;
    metric.label = {{"device", device}};
    (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) =
        static_cast<double>(count);
    family.metric.push_back(std::move(metric));
  }
  all.push_back(std::move(family));
}

/// One metric of each watched resource.
struct ApiConnection {
  const char* name;
  const char* help;
  MetricType type;
  double (*value)(const k8s::ApiStats& stats);
};

template <auto Field>
double figure(const k8s::ApiStats& stats) {
  return static_cast<double>(stats.*Field);
}

double silence(const k8s::ApiStats& stats) { return std::chrono::duration<double>(stats.silence).count(); }

template <auto Field>
double count(const k8s::ApiStats& stats) {
  return static_cast<double>(stats.stream.*Field);
}

using Stream = k8s::Reflector::Counts;

constexpr std::array<ApiConnection, 10> api_lines = {{
    {"sluice_api_lists_total", "Whole lists that the API has sent; more than one: the watch was lost",
     MetricType::Counter, figure<&k8s::ApiStats::lists>},
    {"sluice_api_requests_total", "Requests for pages of lists, and for watches", MetricType::Counter,
     figure<&k8s::ApiStats::requests>},
    {"sluice_api_failures_total", "Requests to the API that failed", MetricType::Counter,
     figure<&k8s::ApiStats::failures>},
    {"sluice_api_watches_total", "Watches begun; all but those that follow a list are restarts",
     MetricType::Counter, count<&Stream::watches>},
    {"sluice_api_quiet_watches_total",
     "Watches begun again because no event arrived for two minutes, which is not a failure",
     MetricType::Counter, count<&Stream::quiet>},
    {"sluice_api_decode_errors_total", "Responses, events and objects that could not be decoded",
     MetricType::Counter, count<&Stream::unreadable>},
    {"sluice_api_received_bytes_total", "Bytes of responses, decompressed", MetricType::Counter,
     figure<&k8s::ApiStats::bytes>},
    {"sluice_api_object_problems_total", "Parts of objects of the API that were rejected or skipped",
     MetricType::Counter, figure<&k8s::ApiStats::problems>},
    {"sluice_api_objects", "Objects of the API that are known", MetricType::Gauge,
     figure<&k8s::ApiStats::objects>},
    {"sluice_api_silence_seconds",
     "Since the last byte from the API; most healthy servers send something each minute", MetricType::Gauge,
     silence},
}};

void add_api_families(std::vector<MetricFamily>& families_out, const std::vector<k8s::ApiStats>& resources) {
  for (const auto& line : api_lines) {
    auto family = make_family(line.name, line.help, line.type);
    for (const auto& stats : resources) {
      ClientMetric metric;
      metric.label = {{"resource", std::string(stats.resource)}};
      (line.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = line.value(stats);
      family.metric.push_back(std::move(metric));
    }
    families_out.push_back(std::move(family));
  }
}

MetricFamily gauges(const char* name, const char* help) { return make_family(name, help, MetricType::Gauge); }

void add_gauge(MetricFamily& family, std::vector<ClientMetric::Label> labels, std::uint64_t value) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = static_cast<double>(value);
  family.metric.push_back(std::move(metric));
}

MetricFamily single(const char* name, const char* help, std::uint64_t value) {
  auto family = gauges(name, help);
  add_gauge(family, {}, value);
  return family;
}

MetricFamily retired_family(const std::vector<Fill>& fills) {
  auto family = gauges("sluice_map_retired", "Retired entries, which packets or flows may still refer to");
  for (const auto& fill : fills) {
    if (fill.retired) {
      add_gauge(family, {{"map", std::string(fill.map)}}, *fill.retired);
    }
  }
  return family;
}

MetricFamily flows_age_family(std::chrono::steady_clock::duration age) {
  auto family =
      gauges("sluice_flow_count_age_seconds",
             "Since the entries of the flow tables were counted: a scrape shows the last count, and "
             "begins the next");
  ClientMetric metric;
  metric.gauge.value = std::chrono::duration<double>(age).count();
  family.metric.push_back(std::move(metric));
  return family;
}

MetricFamily no_local_family(const NoLocal& counts) {
  auto family =
      gauges("kubeproxy_sync_proxy_rules_no_local_endpoints_total",
             "Service ports with a Local traffic policy that have endpoints, but none on this node");
  for (std::size_t i = 0; i < family_labels.size(); ++i) {
    add_gauge(family, {{"ip_family", family_labels.at(i)}, {"traffic_policy", "internal"}},
              counts.internal.at(i));
    add_gauge(family, {{"ip_family", family_labels.at(i)}, {"traffic_policy", "external"}},
              counts.external.at(i));
  }
  return family;
}

MetricFamily figure_of(const char* name, const char* help, MetricType type, double value) {
  auto family = make_family(name, help, type);
  ClientMetric metric;
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
  return family;
}

/// Process metrics under the names that every Prometheus client uses.
void add_process_families(std::vector<MetricFamily>& all, const ProcessStats& process) {
  all.push_back(figure_of("process_cpu_seconds_total", "CPU time in user and in kernel mode",
                          MetricType::Counter, process.cpu_seconds));
  all.push_back(figure_of("process_start_time_seconds", "When the process started, in Unix seconds",
                          MetricType::Gauge, process.start_time));
  all.push_back(single("process_resident_memory_bytes", "Resident memory", process.resident_bytes));
  all.push_back(single("process_virtual_memory_bytes", "Virtual memory", process.virtual_bytes));
  all.push_back(single("process_open_fds", "Open file descriptors", process.open_descriptors));
  all.push_back(
      single("process_max_fds", "Maximum number of open file descriptors", process.max_descriptors));
}

void add_object_families(std::vector<MetricFamily>& all, const Snapshot& snapshot) {
  const auto& objects = snapshot.objects;
  all.push_back(single("sluice_services", "Services in the model", objects.services));
  all.push_back(
      single("sluice_services_waiting",
             "Services that are not planned because they ask for labels of Nodes that are not known",
             objects.waiting));
  all.push_back(single("sluice_endpoint_slices", "EndpointSlices in the model", objects.slices));
  all.push_back(single("sluice_endpoints", "Endpoints in the model", objects.endpoints));
  all.push_back(single("sluice_frontends_lost",
                       "Addresses and ports that another service holds with a better claim",
                       objects.lost_frontends));
  all.push_back(single("sluice_extents", "Sets of backends that have slots", snapshot.extents.used));
  all.push_back(single("sluice_longest_free_extent",
                       "Slots of the longest free range in lb_slots: the largest set that fits",
                       snapshot.extents.longest_free));
}

/// Splits the key, with its name "namespace/name:port", into labels.
std::vector<ClientMetric::Label> labels_of(const ServicePortKey& key, const char* set) {
  const auto slash = key.name.find('/');
  const auto colon = std::min(key.name.find(':'), key.name.size());
  const auto name = slash == std::string::npos ? 0 : slash + 1;
  return {{"ip_family", family_labels.at(key.family == LB_IPV4 ? 0 : 1)},
          {"namespace", key.name.substr(0, name == 0 ? 0 : slash)},
          {"port", key.name.substr(std::min(colon + 1, key.name.size()))},
          {"protocol", std::string(maps::word(key.protocol))},
          {"service", key.name.substr(name, colon - name)},
          {"set", set}};
}

void add_service_families(std::vector<MetricFamily>& all, const Snapshot& snapshot) {
  auto eligible =
      gauges("sluice_service_backends_eligible", "Backends of a service port that new flows may use");
  auto programmed = gauges("sluice_service_backends_programmed", "Backends of a service port in the maps");
  const auto add = [&](const ServiceStats& stats, const ServiceStats::Set& set, const char* name) {
    add_gauge(eligible, labels_of(stats.key, name), set.eligible);
    add_gauge(programmed, labels_of(stats.key, name), set.programmed);
  };
  for (const auto& stats : snapshot.services) {
    add(stats, stats.cluster, "cluster");
    if (stats.local) {
      add(stats, *stats.local, "local");
    }
  }
  all.push_back(std::move(eligible));
  all.push_back(std::move(programmed));
  all.push_back(single("sluice_service_metrics_left_out",
                       "Service ports beyond --service-metrics, which are not shown one by one",
                       snapshot.services_left_out));
}

}  // namespace

std::vector<MetricFamily> snapshot_metrics(const Snapshot& snapshot) {
  std::vector<MetricFamily> all;
  all.push_back(outcome_family(snapshot.outcomes));
  all.push_back(fill_family("sluice_map_entries", "Entries in use", snapshot.fills, &Fill::used));
  all.push_back(fill_family("sluice_map_limit", "Entries a map has room for", snapshot.fills, &Fill::limit));
  all.push_back(retired_family(snapshot.fills));
  if (snapshot.flows_age) {
    all.push_back(flows_age_family(*snapshot.flows_age));
  }
  add_by_device(
      all,
      make_family("sluice_xdp_frames_lost_total",
                  "Frames that XDP redirected to a device and that the device dropped", MetricType::Counter),
      snapshot.frames_lost);
  add_by_device(all,
                make_family("sluice_unserved_backends",
                            "Backends for clients outside that routes lead to by a device that is not served",
                            MetricType::Gauge),
                snapshot.unserved_backends);
  all.push_back(no_local_family(snapshot.objects.no_local));
  if (const auto process = own_process()) {
    add_process_families(all, *process);
  }
  add_object_families(all, snapshot);
  if (!snapshot.services.empty()) {
    add_service_families(all, snapshot);
  }
  if (!snapshot.api.empty()) {
    add_api_families(all, snapshot.api);
  }
  return all;
}

}  // namespace lb::agent
