// SPDX-License-Identifier: Apache-2.0
// Plans that are not in the maps yet, and when to retry them. No map, no clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/plan/plan.hpp"

namespace lb::agent {

/// The progress of writing a service.
enum class Progress : std::uint8_t {
  written,
  waiting,  ///< for a grace period or a sweep, which frees ids or slots
  failed    ///< by an error, which only a retry may overcome
};

class RetryQueue {
 public:
  /// Replaces the service's kept plan; with `written` nothing is kept. `since`: the epoch of IdReclaimer in
  /// which it began to wait.
  void keep(PlanChange change, Progress progress, std::uint64_t since);
  void clear() noexcept { kept_.clear(); }
  [[nodiscard]] bool empty() const noexcept { return kept_.empty(); }

  /// Copies of the plans with this progress, sorted by service.
  [[nodiscard]] std::vector<PlanChange> with(Progress progress) const;
  [[nodiscard]] bool has(Progress progress) const;
  /// Whether writing this service ("namespace/name") failed.
  [[nodiscard]] bool has_failed(const std::string& service) const;
  /// The epoch in which this service began to wait; nullopt if it does not wait.
  [[nodiscard]] std::optional<std::uint64_t> waiting_since(const std::string& service) const;
  /// Calls `visit` with each service port's plan.
  template <class Visit>
  void for_each_port(Visit visit) const {
    for (const auto& [service, kept] : kept_) {
      for (const auto& port : kept.change.ports) {
        visit(*port);
      }
    }
  }

  /// Backoff before the next retry: 100 ms, doubled by each note_retry(), at most 25.6 s.
  [[nodiscard]] std::chrono::milliseconds pause() const;
  void note_retry() noexcept { ++retries_; }
  /// Resets the backoff after everything was written.
  void note_success() noexcept { retries_ = 0; }
  /// Shortens it to 800 ms: a Service has left room to others. No tenant can cause more retries than that.
  void note_room() noexcept;

 private:
  struct Kept {
    PlanChange change;
    Progress progress = Progress::failed;
    std::uint64_t since = 0;
  };
  std::map<std::string, Kept> kept_;  ///< by "namespace/name"
  unsigned retries_ = 0;              ///< retries since the last success
};

}  // namespace lb::agent
