// SPDX-License-Identifier: Apache-2.0
// The agent's metrics, and their text for a scrape. Only metrics.cpp and snapshot_metrics.cpp use
// prometheus-cpp.
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
/// Whether the present configuration file is valid.
enum class ConfigState : std::uint8_t { good, bad };
/// Whether everything was written, or only changes.
enum class Sync : std::uint8_t { full, partial };

/// Counters are updated at their events, and rendered together with a snapshot of the maps.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// An object of a source changed; it stays pending until published() is called.
  void changed(Subject what, std::chrono::system_clock::time_point now);
  /// Plans were written, or as much of them as possible; it took `took`.
  void published(Sync sync, std::chrono::steady_clock::duration took);
  /// All changes so far are in the maps or are written in turns, except those of services that do not fit.
  void synced(std::chrono::system_clock::time_point now);
  /// A burst of changes is in the maps; `took` counts from the arrival of its first change.
  void changes_written(std::chrono::steady_clock::duration took);
  /// A change is in the maps; `took` counts from its trigger, and is negative if clocks differ.
  void programmed(k8s::Family family, std::chrono::nanoseconds took);
  /// No reported change is pending: all were planned, as kube-proxy counts them.
  void in_sync();
  void complained();
  void retried();
  /// Flows that expired; `why` is the name of one of `endings`.
  void flows_ended(std::string_view why, std::uint64_t count);
  /// A program or pin that others had removed was restored.
  void restored(const std::string& hook);
  /// Entries of a table that others had changed were repaired.
  void repaired(const std::string& table, std::size_t entries);
  void probed(Probe probe, unsigned status);
  /// Sets whether kube-proxy's rules exist.
  void kube_proxy(KubeProxy rules);

  /// The kernel refuses a program: it is loaded without the named features, or left out if none is named.
  void program_refused(const std::string& program, const std::string& without);

  /// Another process holds `count` ports of that server ("health", "metrics", "health-check").
  void ports_waiting(const std::string& server, std::size_t count);

  /// A request to the API got a response, or failed.
  void requested(const k8s::RequestOutcome& outcome);

  /// The configuration file was read, at the start or after a change.
  void config_loaded(ConfigState state, std::chrono::system_clock::time_point now);

  /// The text in exposition format 0.0.4.
  [[nodiscard]] std::string render(const Snapshot& snapshot) const;
  static constexpr const char* content_type = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lb::agent
