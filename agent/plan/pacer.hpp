// SPDX-License-Identifier: Apache-2.0
// Between the model and the tables: writes a plan that changes thousands of entries in parts, alternating
// with other services. Pure, and without a clock: writes are counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/options/config.hpp"
#include "agent/plan/plan.hpp"

namespace lb::agent {

/// The cost to write `want` over `have`: one unit is about one system call, or 2 µs. Backends, which are
/// stores into mapped memory, cost a sixteenth if added or changed, and half if removed; the slots of a set
/// that changes are written again, and a table of consistent selection with `consistent_slots` slots costs
/// more. Stops counting at `enough`.
[[nodiscard]] std::size_t writes_between(const ServicePlans& have, const ServicePlans& want,
                                         std::size_t enough = std::numeric_limits<std::size_t>::max(),
                                         std::uint32_t consistent_slots = Sizes{}.consistent_slots);

/// The next plans to write on the way from `have` to `want`, with about `writes` writes: `want` itself if
/// that suffices, else intermediate plans, each of them valid. An intermediate plan allows every client that
/// both plans allow, and rejects every client that both reject: source ranges are added before the frontends
/// that they allow, and removed after them. One service port's backends are added and removed in parts, in
/// their order, and no set is empty in between unless it is in one of the two; backends of consistent
/// selection, whose tables are rebuilt each time, are written as a whole, but not those of several ports
/// at once if they are many. A frontend that passes to another service port of the service stays until that
/// one has it.
///
/// No service has more than `max_entries` frontends, or source ranges, on its way, unless one of the two
/// plans has: of further ones those that `want` lacks are removed first. A client whose range is then
/// replaced by another one may be rejected in between. At least two writes always make progress.
[[nodiscard]] ServicePlans part_towards(const ServicePlans& have, const ServicePlans& want,
                                        std::size_t writes,
                                        std::uint32_t consistent_slots = Sizes{}.consistent_slots,
                                        std::size_t max_entries = default_service_frontends);

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
  [[nodiscard]] bool waits() const noexcept { return !wanted_.empty(); }

 private:
  void prepare_one(PlanChange change);
  void pass_whole();
  void pass_changes(std::vector<PlanChange> changes);
  void wait_in_turn(PlanChange change);
  void note(const PlanChange& passed);
  void ask_for_more();
  [[nodiscard]] bool is_awaited(PlanChange& change);
  [[nodiscard]] std::size_t writes_for(const PlanChange& change) const;
  [[nodiscard]] PlanChange next_part(std::size_t& writes);

  PlanSink& plans_;
  std::function<void()> more_;
  std::size_t max_writes_;
  std::uint32_t consistent_slots_;
  std::size_t max_entries_;
  std::unordered_map<std::string, ServicePlans> passed_;  ///< plans passed to plans_ so far
  std::unordered_map<std::string, ServicePlans> wanted_;  ///< plans still to be reached
  std::deque<std::string> turns_;                         ///< services of wanted_
  bool asked_for_more_ = false;
  std::map<std::string, PlanChange> prepared_;  ///< first batch: plans to pass once it is whole
  std::size_t prepared_writes_ = 0;             ///< writes of that batch so far
  FirstBatch first_ = FirstBatch::at_once;
};

}  // namespace lb::agent
