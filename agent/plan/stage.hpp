// SPDX-License-Identifier: Apache-2.0
// What is to be done next for one Service. One value, and a table of the events that may change it: no two
// facts about the work on a Service can contradict each other. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace lb::agent {

/// In the order of the work. "…_outdated": something of the Service has changed since; that is read when the
/// present work is done.
enum class Stage : std::uint8_t {
  idle,               ///< the plan is that of the objects, or labels that it needs are unknown
  changed,            ///< its objects must be read
  drafted,            ///< read, which used up a turn; its claims are made in the next one
  claiming,           ///< some of its claims are made
  claiming_outdated,  ///< likewise
  claimed,            ///< all claims are made, in several turns: they must be planned before others are made
  claimed_outdated,   ///< likewise
  to_plan,            ///< must be planned
  to_plan_outdated,   ///< must be read, and then planned, when it is its turn
  planning,           ///< some of its plan is made
  planning_outdated,  ///< likewise
};
inline constexpr std::size_t stages = 11;

enum class StageEvent : std::uint8_t {
  touched,       ///< one of its objects, or a fact that its spec depends on, has changed
  affected,      ///< it must be planned again, though none of its own objects has changed
  due,           ///< its turn to be planned has come, but it must be read before
  drafted,       ///< reading it used up the turn
  claims_begun,  ///< the turn ended before all claims were made
  claims_made,
  put_off,     ///< labels that it needs are unknown
  plan_begun,  ///< the turn ended before its plan was made
  plan_ended,  ///< its plan under way is of objects that are gone: it was given up
  planned,
};
inline constexpr std::size_t stage_events = 10;

struct StageTransition {
  Stage from;
  StageEvent event;
  Stage to;
};
/// All that are possible; no two of them have the same `from` and `event`.
[[nodiscard]] std::span<const StageTransition> stage_transitions() noexcept;

/// nullopt: impossible.
[[nodiscard]] std::optional<Stage> next_stage(Stage from, StageEvent event) noexcept;

[[nodiscard]] const char* name_of(Stage stage) noexcept;
[[nodiscard]] const char* name_of(StageEvent event) noexcept;

/// In which of the queues (ServiceRecords) a Service waits.
enum class StageQueue : std::uint8_t { none, to_read, to_plan, under_way };
inline constexpr std::size_t stage_queues = 4;
[[nodiscard]] StageQueue queue_of(Stage stage) noexcept;

}  // namespace lb::agent
