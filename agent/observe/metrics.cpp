// The metrics, by prometheus-cpp's core: the only file that includes it.
#include "agent/observe/metrics.hpp"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "agent/observe/process_stats.hpp"
#include "maps/text.hpp"

namespace lb::agent {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::ClientMetric;
using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::Registry;

constexpr std::array<const char*, 2> families = {"IPv4", "IPv6"};

Histogram::BucketBoundaries powers_of_two(double first, int count) {
  Histogram::BucketBoundaries boundaries;
  for (int i = 0; i < count; ++i, first *= 2) {
    boundaries.push_back(first);
  }
  return boundaries;
}

double unix_seconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

/// One writer serves both families, so both labels have the same value.
std::array<Gauge*, 2> gauge_by_family(Registry& registry, const char* name, const char* help) {
  auto& family = BuildGauge().Name(name).Help(help).Register(registry);
  return {&family.Add({{"ip_family", families[0]}}), &family.Add({{"ip_family", families[1]}})};
}

std::array<Histogram*, 2> histogram_by_family(Registry& registry, const char* name, const char* help,
                                              const Histogram::BucketBoundaries& boundaries) {
  auto& family = BuildHistogram().Name(name).Help(help).Register(registry);
  return {&family.Add({{"ip_family", families[0]}}, boundaries),
          &family.Add({{"ip_family", families[1]}}, boundaries)};
}

/// kube-proxy's buckets for its own work.
Histogram::BucketBoundaries sync_buckets() { return powers_of_two(0.001, 15); }

/// client-go's buckets.
Histogram::BucketBoundaries request_buckets() {
  return {0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60};
}

/// kube-proxy's buckets from trigger to completion: 0.25 and 0.5 s, then steps of 1, 5 and 30 s up to five
/// minutes.
Histogram::BucketBoundaries programming_buckets() {
  Histogram::BucketBoundaries boundaries = {0.25, 0.5};
  const auto add = [&boundaries](int first, int step, int count) {
    for (int i = 0; i < count; ++i) {
      boundaries.push_back(first + i * step);
    }
  };
  add(1, 1, 59);
  add(60, 5, 12);
  add(120, 30, 7);
  return boundaries;
}

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
  if (counts.empty()) return;
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
     "Watches begun again because no event arrived for two minutes, which is no failure", MetricType::Counter,
     count<&Stream::quiet>},
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
  for (std::size_t i = 0; i < families.size(); ++i) {
    add_gauge(family, {{"ip_family", families.at(i)}, {"traffic_policy", "internal"}}, counts.internal.at(i));
    add_gauge(family, {{"ip_family", families.at(i)}, {"traffic_policy", "external"}}, counts.external.at(i));
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
      single("process_max_fds", "Maximum number of open file descriptors", process.most_descriptors));
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
  return {{"ip_family", families.at(key.family == LB_IPV4 ? 0 : 1)},
          {"namespace", key.name.substr(0, name == 0 ? 0 : slash)},
          {"port", key.name.substr(std::min(colon + 1, key.name.size()))},
          {"protocol", std::string(maps::word(key.protocol))},
          {"service", key.name.substr(name, colon - name)},
          {"set", set}};
}

void add_service_families(std::vector<MetricFamily>& all, const Snapshot& snapshot) {
  auto eligible = gauges("sluice_service_backends_eligible", "Backends that new flows of a service may get");
  auto programmed = gauges("sluice_service_backends_programmed", "Backends that the maps have for them");
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

struct Metrics::State {
  Registry registry;
  std::array<Histogram*, 2> sync =
      histogram_by_family(registry, "kubeproxy_sync_proxy_rules_duration_seconds",
                          "Time to write one batch of changes to the maps", sync_buckets());
  std::array<Histogram*, 2> full =
      histogram_by_family(registry, "kubeproxy_sync_full_proxy_rules_duration_seconds",
                          "Time to write all entries to the maps, as at the start", sync_buckets());
  std::array<Histogram*, 2> partial =
      histogram_by_family(registry, "kubeproxy_sync_partial_proxy_rules_duration_seconds",
                          "Time to write what has changed to the maps", sync_buckets());
  std::array<Histogram*, 2> programming =
      histogram_by_family(registry, "kubeproxy_network_programming_duration_seconds",
                          "Time from what caused a change of endpoints (its slice's annotation) to the maps",
                          programming_buckets());
  std::array<Gauge*, 2> last_sync =
      gauge_by_family(registry, "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
                      "When the maps were last brought up to date, in Unix seconds");
  std::array<Gauge*, 2> last_queued =
      gauge_by_family(registry, "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
                      "When an object last changed, in Unix seconds");
  Histogram& publish =
      BuildHistogram()
          .Name("sluice_publish_seconds")
          .Help("Time from a finished plan to its last write, finer than kube-proxy's histogram")
          .Register(registry)
          .Add({}, powers_of_two(1.0 / (1 << 17), 18));
  Histogram& change = BuildHistogram()
                          .Name("sluice_change_seconds")
                          .Help("Time from the arrival of changes, not decoded yet, to their last write")
                          .Register(registry)
                          .Add({}, powers_of_two(1.0 / (1 << 14), 18));
  Counter& service_changes = BuildCounter()
                                 .Name("kubeproxy_sync_proxy_rules_service_changes_total")
                                 .Help("Changes of Services reported by the source")
                                 .Register(registry)
                                 .Add({});
  Counter& endpoint_changes = BuildCounter()
                                  .Name("kubeproxy_sync_proxy_rules_endpoint_changes_total")
                                  .Help("Changes of EndpointSlices reported by the source")
                                  .Register(registry)
                                  .Add({});
  Gauge& services_pending = BuildGauge()
                                .Name("kubeproxy_sync_proxy_rules_service_changes_pending")
                                .Help("Changes of Services that are not in the maps yet")
                                .Register(registry)
                                .Add({});
  Gauge& endpoints_pending = BuildGauge()
                                 .Name("kubeproxy_sync_proxy_rules_endpoint_changes_pending")
                                 .Help("Changes of EndpointSlices that are not in the maps yet")
                                 .Register(registry)
                                 .Add({});
  prometheus::Family<Counter>& healthz =
      BuildCounter().Name("kubeproxy_proxy_healthz_total").Help("Responses of /healthz").Register(registry);
  prometheus::Family<Counter>& livez =
      BuildCounter().Name("kubeproxy_proxy_livez_total").Help("Responses of /livez").Register(registry);
  Counter& complaints = BuildCounter()
                            .Name("sluice_complaints_total")
                            .Help("Parts of objects that were rejected or skipped; the log names each once")
                            .Register(registry)
                            .Add({});
  Counter& retries = BuildCounter()
                         .Name("sluice_write_retries_total")
                         .Help("Services whose write to the maps failed and was tried again")
                         .Register(registry)
                         .Add({});
  prometheus::Family<Counter>& repaired =
      BuildCounter()
          .Name("sluice_entries_repaired_total")
          .Help("Entries of the tables that were changed from outside, repaired")
          .Register(registry);
  prometheus::Family<Counter>& restored =
      BuildCounter()
          .Name("sluice_hooks_restored_total")
          .Help("Programs and pins that were detached or removed from outside, restored")
          .Register(registry);
  prometheus::Family<Counter>& ended = BuildCounter()
                                           .Name("sluice_flows_ended_total")
                                           .Help("Established flows whose entries expired, by reason")
                                           .Register(registry);
  Gauge& kube_proxy = BuildGauge()
                          .Name("sluice_kube_proxy_rules")
                          .Help("1 while --drop-unallocated is without effect because of kube-proxy's rules")
                          .Register(registry)
                          .Add({});
  prometheus::Family<Gauge>& ports_waiting =
      BuildGauge()
          .Name("sluice_ports_waiting")
          .Help("Ports that the agent waits for because another process holds them, by what they are for")
          .Register(registry);
  prometheus::Family<Gauge>& config_good =
      BuildGauge()
          .Name("sluice_config_last_reload_successful")
          .Help("1 if the configuration file can be used as it is now; 0: the last good one is in force")
          .Register(registry);
  prometheus::Family<Gauge>& config_time = BuildGauge()
                                               .Name("sluice_config_last_reload_success_timestamp_seconds")
                                               .Help("When the configuration that is in force was read")
                                               .Register(registry);
  prometheus::Family<Counter>& requests =
      BuildCounter()
          .Name("rest_client_requests_total")
          .Help("Requests to the API by the status of the response; <error>: there was none")
          .Register(registry);
  prometheus::Family<Histogram>& request_times =
      BuildHistogram()
          .Name("rest_client_request_duration_seconds")
          .Help("Time from a request to the head of its response; watches are not included")
          .Register(registry);
  Gauge& build = BuildGauge()
                     .Name("sluice_build_info")
                     .Help("Always 1; the label says which version runs")
                     .Register(registry)
                     .Add({{"version", SLUICE_VERSION}});
};

Metrics::Metrics() : state_(std::make_unique<State>()) { state_->build.Set(1); }
Metrics::~Metrics() = default;

void Metrics::changed(Subject what, std::chrono::system_clock::time_point now) {
  (what == Subject::service ? state_->service_changes : state_->endpoint_changes).Increment();
  (what == Subject::service ? state_->services_pending : state_->endpoints_pending).Increment();
  for (auto* gauge : state_->last_queued) {
    gauge->Set(unix_seconds(now));
  }
}

void Metrics::published(Sync sync, std::chrono::steady_clock::duration took,
                        std::chrono::system_clock::time_point now) {
  const double seconds = std::chrono::duration<double>(took).count();
  state_->publish.Observe(seconds);
  for (auto* histograms : {&state_->sync, sync == Sync::full ? &state_->full : &state_->partial}) {
    for (auto* histogram : *histograms) {
      histogram->Observe(seconds);
    }
  }
  for (auto* gauge : state_->last_sync) {
    gauge->Set(unix_seconds(now));
  }
  in_sync();
}

void Metrics::changes_written(std::chrono::steady_clock::duration took) {
  state_->change.Observe(std::chrono::duration<double>(took).count());
}

void Metrics::programmed(k8s::Family family, std::chrono::nanoseconds took) {
  state_->programming.at(family == k8s::Family::ipv4 ? 0 : 1)
      ->Observe(std::chrono::duration<double>(took).count());
}

void Metrics::in_sync() {
  state_->services_pending.Set(0);
  state_->endpoints_pending.Set(0);
}

void Metrics::complained() { state_->complaints.Increment(); }

void Metrics::retried() { state_->retries.Increment(); }

void Metrics::flows_ended(std::string_view why, std::uint64_t count) {
  state_->ended.Add({{"reason", std::string(why)}}).Increment(static_cast<double>(count));
}

void Metrics::restored(const std::string& hook) { state_->restored.Add({{"hook", hook}}).Increment(); }

void Metrics::repaired(const std::string& table, std::size_t entries) {
  state_->repaired.Add({{"table", table}}).Increment(static_cast<double>(entries));
}

void Metrics::probed(Probe probe, unsigned status) {
  auto& family = probe == Probe::healthz ? state_->healthz : state_->livez;
  family.Add({{"code", std::to_string(status)}}).Increment();
}

void Metrics::kube_proxy(KubeProxy rules) { state_->kube_proxy.Set(rules == KubeProxy::present ? 1 : 0); }

void Metrics::ports_waiting(const std::string& server, std::size_t count) {
  state_->ports_waiting.Add({{"server", server}}).Set(static_cast<double>(count));
}

/// Counts like client-go: a request without a response has a duration, too.
void Metrics::requested(const k8s::RequestOutcome& outcome) {
  const std::string method(outcome.method);
  const auto code = outcome.status == 0 ? "<error>" : std::to_string(outcome.status);
  state_->requests.Add({{"code", code}, {"host", outcome.host}, {"method", method}}).Increment();
  if (outcome.is_watch) return;
  state_->request_times.Add({{"host", outcome.host}, {"verb", method}}, request_buckets())
      .Observe(std::chrono::duration<double>(outcome.took).count());
}

void Metrics::config_loaded(ConfigState state, std::chrono::system_clock::time_point now) {
  state_->config_good.Add({}).Set(state == ConfigState::good ? 1 : 0);
  if (state == ConfigState::good) {
    state_->config_time.Add({}).Set(unix_seconds(now));
  }
}

std::string Metrics::render(const Snapshot& snapshot) const {
  auto all = state_->registry.Collect();
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
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace lb::agent
