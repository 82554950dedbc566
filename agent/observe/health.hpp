// Whether this agent keeps its node's maps up to date, as kube-proxy's probes report it (SEM-59, 60). No
// clock here.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "agent/observe/http.hpp"

namespace lb::agent {

/// Steady for judging, wall for printing: a jump of the wall clock changes no verdict.
struct Moment {
  std::chrono::steady_clock::time_point steady;
  std::chrono::system_clock::time_point wall;

  [[nodiscard]] static Moment now() {
    return {std::chrono::steady_clock::now(), std::chrono::system_clock::now()};
  }
};

/// May cloud load balancers send new connections to this node?
/// `unknown`: the API has not shown the Node yet.
enum class NodeEligibility : std::uint8_t { eligible, leaving, unknown };

class Health {
 public:
  /// A change that has waited this long to be written makes us unhealthy: twice kube-proxy's sync period.
  static constexpr std::chrono::seconds overdue_after{60};

  /// A change has arrived and waits to be written; calls before the next applied() keep the oldest.
  void queued(Moment now);
  /// All that had arrived is in the maps. The first call ends the start-up (SEM-63).
  void applied(Moment now);
  void eligibility(NodeEligibility value) { eligibility_ = value; }

  [[nodiscard]] bool ready() const { return applied_.has_value(); }
  [[nodiscard]] bool healthy(Moment now) const;

  /// 200 while healthy and eligible, else 503.
  [[nodiscard]] HttpResponse healthz(Moment now) const;
  /// 200 while healthy, else 503. Before the first full write it is 200 as long as that does not take longer
  /// than any other write may: a liveness probe must not kill an agent that starts.
  [[nodiscard]] HttpResponse livez(Moment now) const;

 private:
  [[nodiscard]] bool overdue(Moment now) const;
  [[nodiscard]] std::string last_updated(Moment now) const;

  std::optional<Moment> queued_;   ///< the oldest change not yet written
  std::optional<Moment> applied_;  ///< the last time nothing was left to write
  NodeEligibility eligibility_ = NodeEligibility::eligible;
};

}  // namespace lb::agent
