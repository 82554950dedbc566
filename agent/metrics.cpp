// The metrics, by prometheus-cpp's core: the only file that includes it.
#include "agent/metrics.hpp"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <iterator>
#include <string>
#include <utility>

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

/// One writer serves both families, so both labels carry the same figure.
std::array<Gauge*, 2> gauge_by_family(Registry& registry, const char* name, const char* help) {
  auto& family = BuildGauge().Name(name).Help(help).Register(registry);
  return {&family.Add({{"ip_family", families[0]}}), &family.Add({{"ip_family", families[1]}})};
}

std::array<Histogram*, 2> histogram_by_family(Registry& registry, const char* name, const char* help) {
  auto& family = BuildHistogram().Name(name).Help(help).Register(registry);
  const auto boundaries = powers_of_two(0.001, 15);  // kube-proxy's
  return {&family.Add({{"ip_family", families[0]}}, boundaries),
          &family.Add({{"ip_family", families[1]}}, boundaries)};
}

MetricFamily make_family(const char* name, std::string help, prometheus::MetricType type) {
  MetricFamily family;
  family.name = name;
  family.help = std::move(help);
  family.type = type;
  return family;
}

MetricFamily outcome_family(const lb_stats& stats) {
  std::string help = "What packets and socket calls met";
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

/// One line of what is told of each watched resource.
struct ApiLine {
  const char* name;
  const char* help;
  MetricType type;
  double (*value)(const k8s::ApiFigures& figures);
};

template <auto Field>
double figure(const k8s::ApiFigures& figures) {
  return static_cast<double>(figures.*Field);
}

double silence(const k8s::ApiFigures& figures) {
  return std::chrono::duration<double>(figures.silence).count();
}

constexpr std::array<ApiLine, 7> api_lines = {{
    {"sluice_api_lists_total", "Whole lists that the API has told; more than one: the watch was lost",
     MetricType::Counter, figure<&k8s::ApiFigures::lists>},
    {"sluice_api_requests_total", "Pieces of lists, and watches, that were asked for", MetricType::Counter,
     figure<&k8s::ApiFigures::requests>},
    {"sluice_api_failures_total", "Requests to the API that came to no good end", MetricType::Counter,
     figure<&k8s::ApiFigures::failures>},
    {"sluice_api_received_bytes_total", "Bytes of answers, decompressed", MetricType::Counter,
     figure<&k8s::ApiFigures::bytes>},
    {"sluice_api_object_problems_total", "What was refused or skipped in objects of the API",
     MetricType::Counter, figure<&k8s::ApiFigures::problems>},
    {"sluice_api_objects", "Objects of the API that are known", MetricType::Gauge,
     figure<&k8s::ApiFigures::objects>},
    {"sluice_api_silence_seconds",
     "Since the API was last heard; a server that is well says something each minute", MetricType::Gauge,
     silence},
}};

void add_api_families(std::vector<MetricFamily>& families_out,
                      const std::vector<k8s::ApiFigures>& resources) {
  for (const auto& line : api_lines) {
    auto family = make_family(line.name, line.help, line.type);
    for (const auto& figures : resources) {
      ClientMetric metric;
      metric.label = {{"resource", std::string(figures.resource)}};
      (line.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = line.value(figures);
      family.metric.push_back(std::move(metric));
    }
    families_out.push_back(std::move(family));
  }
}

}  // namespace

struct Metrics::State {
  Registry registry;
  std::array<Histogram*, 2> sync =
      histogram_by_family(registry, "kubeproxy_sync_proxy_rules_duration_seconds",
                          "Time to write one batch of changes to the maps");
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
  Counter& service_changes = BuildCounter()
                                 .Name("kubeproxy_sync_proxy_rules_service_changes_total")
                                 .Help("Changes of Services told by the source")
                                 .Register(registry)
                                 .Add({});
  Counter& endpoint_changes = BuildCounter()
                                  .Name("kubeproxy_sync_proxy_rules_endpoint_changes_total")
                                  .Help("Changes of EndpointSlices told by the source")
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
      BuildCounter().Name("kubeproxy_proxy_healthz_total").Help("Answers of /healthz").Register(registry);
  prometheus::Family<Counter>& livez =
      BuildCounter().Name("kubeproxy_proxy_livez_total").Help("Answers of /livez").Register(registry);
  Counter& complaints = BuildCounter()
                            .Name("sluice_complaints_total")
                            .Help("What was refused or skipped in objects; the log names each once")
                            .Register(registry)
                            .Add({});
  Counter& retries = BuildCounter()
                         .Name("sluice_write_retries_total")
                         .Help("Services whose write to the maps failed and was tried again")
                         .Register(registry)
                         .Add({});
  prometheus::Family<Counter>& restored =
      BuildCounter()
          .Name("sluice_hooks_restored_total")
          .Help("Programs that others detached and pins that others removed, brought back")
          .Register(registry);
  prometheus::Family<Counter>& ended = BuildCounter()
                                           .Name("sluice_flows_ended_total")
                                           .Help("Established flows whose entries expired, by reason")
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

void Metrics::published(std::chrono::steady_clock::duration took, std::chrono::system_clock::time_point now) {
  const double seconds = std::chrono::duration<double>(took).count();
  state_->publish.Observe(seconds);
  for (auto* histogram : state_->sync) {
    histogram->Observe(seconds);
  }
  for (auto* gauge : state_->last_sync) {
    gauge->Set(unix_seconds(now));
  }
  state_->services_pending.Set(0);
  state_->endpoints_pending.Set(0);
}

void Metrics::complained() { state_->complaints.Increment(); }

void Metrics::retried() { state_->retries.Increment(); }

void Metrics::flows_ended(std::string_view why, std::uint64_t count) {
  state_->ended.Add({{"reason", std::string(why)}}).Increment(static_cast<double>(count));
}

void Metrics::restored(const std::string& hook) { state_->restored.Add({{"hook", hook}}).Increment(); }

void Metrics::probed(Probe probe, unsigned status) {
  auto& family = probe == Probe::healthz ? state_->healthz : state_->livez;
  family.Add({{"code", std::to_string(status)}}).Increment();
}

std::string Metrics::render(const Snapshot& snapshot) const {
  auto all = state_->registry.Collect();
  all.push_back(outcome_family(snapshot.outcomes));
  all.push_back(fill_family("sluice_map_entries", "Entries in use", snapshot.fills, &Fill::used));
  all.push_back(fill_family("sluice_map_limit", "Entries a map has room for", snapshot.fills, &Fill::limit));
  if (!snapshot.api.empty()) {
    add_api_families(all, snapshot.api);
  }
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace lb::agent
