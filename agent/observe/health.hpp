// SPDX-License-Identifier: Apache-2.0
// Whether this agent keeps its node's maps up to date, as kube-proxy's probes report it (SEM-59, 60). No
// clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "agent/observe/http.hpp"

namespace lb::agent {

/// Steady time for decisions, wall time for output: a jump of the wall clock changes no result.
struct Moment {
  std::chrono::steady_clock::time_point steady;
  std::chrono::system_clock::time_point wall;

  [[nodiscard]] static Moment now() {
    return {std::chrono::steady_clock::now(), std::chrono::system_clock::now()};
  }
};

/// Whether cloud load balancers may send new connections to this node. `unknown`: the API has not reported
/// the Node yet.
enum class NodeEligibility : std::uint8_t { eligible, leaving, unknown };

/// Whether packets from outside are served. `refused`: the kernel refuses the programs for them.
enum class UplinkService : std::uint8_t { served, refused };

class Health {
 public:
  /// A change that has waited this long to be written makes the agent unhealthy: twice kube-proxy's sync
  /// period.
  static constexpr std::chrono::seconds overdue_after{60};

  /// A change has arrived and waits to be written; until the next applied() the oldest one counts.
  void queued(Moment now);
  /// All changes that had arrived are in the maps or are written in turns, except those of services that do
  /// not fit: one of these must not take the node out of its load balancers. The first call ends the start-up
  /// (SEM-63).
  void applied(Moment now);
  void eligibility(NodeEligibility value) { eligibility_ = value; }
  /// While refused, the node is unhealthy, so that load balancers use others (REL-131).
  void uplinks(UplinkService value) { uplinks_ = value; }

  [[nodiscard]] bool ready() const { return applied_.has_value(); }
  [[nodiscard]] bool healthy(Moment now) const;

  /// 200 while healthy and eligible, else 503.
  [[nodiscard]] HttpResponse healthz(Moment now) const;
  /// 200 while healthy, else 503. Before the first full write it is 200 unless that takes longer than any
  /// other write may: a liveness probe must not kill a starting agent.
  [[nodiscard]] HttpResponse livez(Moment now) const;

 private:
  [[nodiscard]] bool overdue(Moment now) const;
  [[nodiscard]] std::string last_updated(Moment now) const;

  std::optional<Moment> queued_;   ///< the oldest change not yet written
  std::optional<Moment> applied_;  ///< the last applied()
  NodeEligibility eligibility_ = NodeEligibility::eligible;
  UplinkService uplinks_ = UplinkService::served;
};

}  // namespace lb::agent
