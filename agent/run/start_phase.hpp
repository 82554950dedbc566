// SPDX-License-Identifier: Apache-2.0
// The phases of a start, from nothing to a ready node. Pure: time is a parameter.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "agent/observe/health.hpp"
#include "agent/run/start_progress.hpp"

namespace lb::agent {

/// Whether this node was ready before this agent started.
enum class Readiness : std::uint8_t { never, before };

/// In the order in which an agent passes through them; it never goes back.
enum class Phase : std::uint8_t {
  starting,   ///< waits for the kernel to report this node's devices and addresses
  planning,   ///< reads and plans objects; the first plan is not completely in the maps
  attaching,  ///< the first plan is in the maps; hooks are missing, or an earlier agent's
  serving,    ///< all hooks are attached
  ready,      ///< load balancers may send traffic
};

/// Pending work: parts of objects that are not in the maps yet.
struct Backlog {
  bool objects = false;  ///< the source has not reported all objects
  bool labels = false;   ///< a Service waits for the labels of other Nodes
  bool turns = false;    ///< a plan waits for its next turn
  bool tables = false;   ///< a write failed: a map is full, or the kernel refused it
};

class StartPhase {
 public:
  /// How long parts that do not fit may keep the node from being ready.
  static constexpr std::chrono::seconds max_start{30};

  /// A node that was ready before is ready again as soon as it serves, even if something does not fit.
  explicit StartPhase(Readiness before) : before_(before) {}

  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  [[nodiscard]] bool is_serving() const noexcept { return phase_ >= Phase::serving; }
  [[nodiscard]] bool is_ready() const noexcept { return phase_ == Phase::ready; }
  /// The time at which the first batch of plans was in the maps.
  [[nodiscard]] const std::optional<Moment>& first_batch() const noexcept { return first_batch_; }

  /// Call when devices and addresses are known. Returns true the first time.
  [[nodiscard]] bool set_network_known();
  /// Call when a batch of plans is in the maps. The first plan is complete when no part of it waits for its
  /// turn.
  void wrote(const Moment& now, const Backlog& left);
  /// Call when all hooks are attached.
  void attached();
  /// Checks whether the node may be ready; once it is, it stays so. Parts that do not fit delay it for
  /// max_start only: one service must not remove the node from its load balancers for good (SEM-63).
  [[nodiscard]] bool check_ready(const Backlog& left, const Moment& now);

  /// The step that the start waits for.
  [[nodiscard]] StartStep step(const Backlog& left) const;

 private:
  Readiness before_;
  Phase phase_ = Phase::starting;
  std::optional<Moment> first_batch_;
};

}  // namespace lb::agent
