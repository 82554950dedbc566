// The agent's metrics, and their text for a scrape. prometheus-cpp stays in metrics.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kube_proxy/presence.hpp"
#include "agent/tables/snapshot.hpp"
#include "k8s/client/request_outcome.hpp"

namespace lb::agent {

enum class Probe : std::uint8_t { healthz, livez };
enum class Subject : std::uint8_t { service, endpoints };
/// Can the configuration file, as it is now, be used?
enum class ConfigState : std::uint8_t { good, bad };
/// Whether all was written, or what had changed.
enum class Sync : std::uint8_t { full, partial };

/// Counted where it happens; rendered together with a snapshot of the maps.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// An object of a source changed; it stays pending until published() is called.
  void changed(Subject what, std::chrono::system_clock::time_point now);
  /// A plan is in the maps, `took` after the writer got it.
  void published(Sync sync, std::chrono::steady_clock::duration took,
                 std::chrono::system_clock::time_point now);
  /// A burst of changes is in the maps, so long after its first one came.
  void changes_written(std::chrono::steady_clock::duration took);
  /// A change is in the maps, so long after what caused it; below zero where the clocks differ.
  void programmed(k8s::Family family, std::chrono::nanoseconds took);
  /// Nothing that was reported is pending: what changed no plan needs no write.
  void in_sync();
  void complained();
  void retried();
  /// Flows that expired; `why` is one of `endings`.
  void flows_ended(std::string_view why, std::uint64_t count);
  /// A program or pin that others had taken away is back.
  void restored(const std::string& hook);
  /// Entries of a table that others had changed are as they were again.
  void repaired(const std::string& table, std::size_t entries);
  void probed(Probe probe, unsigned status);
  /// Are kube-proxy's rules there?
  void kube_proxy(KubeProxy rules);

  /// So many ports of that server ("health", "metrics", "health-check") are another process's.
  void ports_waiting(const std::string& server, std::size_t count);

  /// A request to the API was answered, or could not be.
  void requested(const k8s::RequestOutcome& outcome);

  /// The configuration file was read, at the start or because it changed.
  void config_loaded(ConfigState state, std::chrono::system_clock::time_point now);

  /// The exposition text (format 0.0.4).
  [[nodiscard]] std::string render(const Snapshot& snapshot) const;
  static constexpr const char* content_type = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lb::agent
