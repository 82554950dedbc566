// SPDX-License-Identifier: Apache-2.0
// Between the model and the tables: writes a plan that changes thousands of entries in parts, alternating
// with other services. Pure, and without a clock: writes are counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/options/config.hpp"
#include "agent/plan/plan.hpp"

namespace lb::agent {

/// How the first batch is written. At once: an earlier agent's entries are in use, and each must be matched
/// in one step. In parts: nothing is served yet that could be interrupted.
enum class FirstBatch : std::uint8_t { at_once, in_parts };

/// Passes small changes on at once and in order. Of a large change it passes the next part with each
/// take_turn(), one service after the other; further changes of these services wait behind it.
class Pacer final : public PlanSink {
 public:
  static constexpr std::size_t max_writes = 1024;  ///< 2 to 4 ms

  /// `more` is called once when a change waits; it must arrange that take_turn() is called soon. `plans` must
  /// outlive this. `consistent_slots`: slots of a set with consistent selection; `max_entries`: frontends,
  /// and source ranges, that one service may have.
  Pacer(PlanSink& plans, std::function<void()> more, std::size_t limit = max_writes,
        std::uint32_t consistent_slots = Sizes{}.consistent_slots,
        std::size_t max_entries = default_service_frontends)
      : plans_(plans),
        more_(std::move(more)),
        max_writes_(limit),
        consistent_slots_(consistent_slots),
        max_entries_(max_entries) {}

  void apply(Batch batch, std::vector<PlanChange> changes) override;
  bool prepare(std::vector<PlanChange>& changes) override;
  /// Call before the first batch, if at all.
  void pass_first(FirstBatch how) noexcept { first_ = how; }
  void take_turn();
  [[nodiscard]] bool waits() const noexcept { return !turns_.empty(); }

 private:
  void prepare_one(PlanChange change);
  void pass_whole();
  void pass_changes(std::vector<PlanChange> changes);
  void wait_in_turn(PlanChange change);
  void note(const PlanChange& passed);
  void ask_for_more();
  [[nodiscard]] bool replaces_wanted(PlanChange& change);
  [[nodiscard]] std::size_t writes_for(const PlanChange& change) const;
  [[nodiscard]] PlanChange next_part(std::size_t& writes);

  PlanSink& plans_;
  std::function<void()> more_;
  std::size_t max_writes_;
  std::uint32_t consistent_slots_;
  std::size_t max_entries_;
  struct Service {
    ServicePlans passed;                 ///< to plans_ so far
    std::optional<ServicePlans> wanted;  ///< still to be reached, by the service's turns
  };
  std::unordered_map<std::string, Service> services_;
  std::deque<std::string> turns_;  ///< services with wanted plans, each once
  bool asked_for_more_ = false;
  std::map<std::string, PlanChange> prepared_;  ///< first batch: plans to pass once it is whole
  std::size_t prepared_writes_ = 0;             ///< writes of that batch so far
  FirstBatch first_ = FirstBatch::at_once;
};

}  // namespace lb::agent
