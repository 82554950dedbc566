// The phases of a start, from nothing to a ready node. Pure: time is a parameter.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "agent/observe/health.hpp"
#include "agent/run/start_progress.hpp"

namespace lb::agent {

/// Was this node ready before this agent began?
enum class Readiness : std::uint8_t { never, before };

/// In the order in which an agent goes through them; there is no way back.
enum class Phase : std::uint8_t {
  starting,   ///< the kernel has not reported this node's devices and addresses
  planning,   ///< objects are read and planned; the first plan is not whole in the maps
  attaching,  ///< it is; no hook of ours is attached, or those of an earlier agent
  serving,    ///< all hooks are attached
  ready,      ///< load balancers may send
};

/// What of the objects is not in the maps yet.
struct Backlog {
  bool objects = false;  ///< the source has not reported all
  bool labels = false;   ///< a Service waits for the labels of other Nodes
  bool turns = false;    ///< a plan waits for its next turn
  bool tables = false;   ///< the maps have not taken something: they are full, or the kernel refused
};

class StartPhase {
 public:
  /// How long what does not fit may keep the node from being ready.
  static constexpr std::chrono::seconds longest_start{30};

  /// A node that was ready before is ready again as soon as it serves, whatever does not fit.
  explicit StartPhase(Readiness before) : before_(before) {}

  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  [[nodiscard]] bool is_serving() const noexcept { return phase_ >= Phase::serving; }
  [[nodiscard]] bool is_ready() const noexcept { return phase_ == Phase::ready; }
  /// When the first batch of plans was in the maps.
  [[nodiscard]] const std::optional<Moment>& first_batch() const noexcept { return first_batch_; }

  /// Devices and addresses are known. True: for the first time.
  [[nodiscard]] bool network_known();
  /// A batch of plans is in the maps. The first plan is whole when none waits for its turn.
  void wrote(const Moment& now, const Backlog& left);
  /// All hooks are attached.
  void attached();
  /// Looks whether the node may be ready; once it is, it stays so. What does not fit holds it up for
  /// longest_start only: one service must not take the node out of its load balancers for good (SEM-63).
  [[nodiscard]] bool check_ready(const Backlog& left, const Moment& now);

  /// What the start waits for.
  [[nodiscard]] StartStep step(const Backlog& left) const;

 private:
  Readiness before_;
  Phase phase_ = Phase::starting;
  std::optional<Moment> first_batch_;
};

}  // namespace lb::agent
