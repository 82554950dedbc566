// Plans that are not in the maps yet, and when to retry them. No map, no clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/plan/plan.hpp"

namespace lb::agent {

/// How far a service came.
enum class Progress : std::uint8_t {
  written,
  waiting,  ///< for a grace period or a sweep, which free what it lacks
  failed    ///< refused; only another try can tell
};

class RetryQueue {
 public:
  /// Takes the place of what was kept of the service; `written` keeps nothing.
  void keep(PlanChange change, Progress progress);
  void clear() noexcept { kept_.clear(); }
  [[nodiscard]] bool empty() const noexcept { return kept_.empty(); }

  /// Copies of those that came so far, in the order of their names.
  [[nodiscard]] std::vector<PlanChange> with(Progress progress) const;
  [[nodiscard]] bool has(Progress progress) const;
  /// Was this service's plan refused? By "namespace/name".
  [[nodiscard]] bool has_failed(const std::string& service) const;
  /// Calls `visit` with each plan of a service port.
  template <class Visit>
  void for_each_port(Visit visit) const {
    for (const auto& [service, kept] : kept_) {
      for (const auto& port : kept.change.ports) visit(*port);
    }
  }

  /// Before the next try: 100 ms, then twice as long after each note_retry(), at most 25.6 s.
  [[nodiscard]] std::chrono::milliseconds pause() const;
  void note_retry() noexcept { ++retries_; }
  /// All is written: the next pause is a short one.
  void note_success() noexcept { retries_ = 0; }

 private:
  struct Kept {
    PlanChange change;
    Progress progress = Progress::failed;
  };
  std::map<std::string, Kept> kept_;  ///< by "namespace/name"
  unsigned retries_ = 0;              ///< since the last success
};

}  // namespace lb::agent
