// SPDX-License-Identifier: Apache-2.0
// Metrics that events count, by prometheus-cpp's core; snapshot_metrics has the others.
#include "agent/observe/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>

#include "agent/observe/snapshot_metrics.hpp"

namespace lb::agent {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

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
  return {&family.Add({{"ip_family", family_labels[0]}}), &family.Add({{"ip_family", family_labels[1]}})};
}

std::array<Histogram*, 2> histogram_by_family(Registry& registry, const char* name, const char* help,
                                              const Histogram::BucketBoundaries& boundaries) {
  auto& family = BuildHistogram().Name(name).Help(help).Register(registry);
  return {&family.Add({{"ip_family", family_labels[0]}}, boundaries),
          &family.Add({{"ip_family", family_labels[1]}}, boundaries)};
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

}  // namespace

struct Metrics::State {
  Registry registry;
  bool published = false;  ///< since the last stamp of last_sync
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
                                .Help("Changes of Services that are not planned yet")
                                .Register(registry)
                                .Add({});
  Gauge& endpoints_pending = BuildGauge()
                                 .Name("kubeproxy_sync_proxy_rules_endpoint_changes_pending")
                                 .Help("Changes of EndpointSlices that are not planned yet")
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
  prometheus::Family<Gauge>& programs_refused =
      BuildGauge()
          .Name("sluice_programs_refused")
          .Help(
              "1 for each program that the kernel refuses: loaded without these features, or left out (none)")
          .Register(registry);
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

void Metrics::published(Sync sync, std::chrono::steady_clock::duration took) {
  const double seconds = std::chrono::duration<double>(took).count();
  state_->publish.Observe(seconds);
  state_->published = true;
  for (auto* histograms : {&state_->sync, sync == Sync::full ? &state_->full : &state_->partial}) {
    for (auto* histogram : *histograms) {
      histogram->Observe(seconds);
    }
  }
  in_sync();
}

/// A stamp must not be later than the effect: between a write and this call the agent may do other work. So
/// only the first call after a write, or after a change that needed none, counts.
void Metrics::synced(std::chrono::system_clock::time_point now) {
  const bool is_stamped = state_->last_sync[0]->Value() > state_->last_queued[0]->Value();
  if (!std::exchange(state_->published, false) && is_stamped) {
    return;
  }
  for (auto* gauge : state_->last_sync) {
    gauge->Set(unix_seconds(now));
  }
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

void Metrics::program_refused(const std::string& program, const std::string& without) {
  state_->programs_refused.Add({{"program", program}, {"without", without}}).Set(1);
}

void Metrics::ports_waiting(const std::string& server, std::size_t count) {
  state_->ports_waiting.Add({{"server", server}}).Set(static_cast<double>(count));
}

/// Counts like client-go: a request without a response has a duration, too.
void Metrics::requested(const k8s::RequestOutcome& outcome) {
  const std::string method(outcome.method);
  const auto code = outcome.status == 0 ? "<error>" : std::to_string(outcome.status);
  state_->requests.Add({{"code", code}, {"host", outcome.host}, {"method", method}}).Increment();
  if (outcome.is_watch) {
    return;
  }
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
  std::ranges::move(snapshot_metrics(snapshot), std::back_inserter(all));
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace lb::agent
