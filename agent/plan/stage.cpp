// SPDX-License-Identifier: Apache-2.0
// What is to be done next for one Service.
#include "agent/plan/stage.hpp"

#include <algorithm>

namespace lb::agent {
namespace {

using enum Stage;
using Event = StageEvent;

constexpr std::array transitions = std::to_array<StageTransition>({
    {idle, Event::touched, changed},
    {changed, Event::touched, changed},
    {drafted, Event::touched, drafted},  // its draft is made again, but not put off again
    {claiming, Event::touched, claiming_outdated},
    {claiming_outdated, Event::touched, claiming_outdated},
    {claimed, Event::touched, claimed_outdated},
    {claimed_outdated, Event::touched, claimed_outdated},
    {to_plan, Event::touched, to_plan_outdated},
    {to_plan_outdated, Event::touched, to_plan_outdated},
    {planning, Event::touched, planning_outdated},
    {planning_outdated, Event::touched, planning_outdated},

    {idle, Event::affected, to_plan},
    {changed, Event::affected, changed},  // these are planned anyway
    {drafted, Event::affected, drafted},
    {claiming, Event::affected, claiming},
    {claiming_outdated, Event::affected, claiming_outdated},
    {claimed, Event::affected, claimed},
    {claimed_outdated, Event::affected, claimed_outdated},
    {to_plan, Event::affected, to_plan},
    {to_plan_outdated, Event::affected, to_plan_outdated},
    {planning, Event::affected, planning_outdated},
    {planning_outdated, Event::affected, planning_outdated},

    {to_plan_outdated, Event::due, changed},
    {changed, Event::drafted, drafted},
    {changed, Event::claims_begun, claiming},
    {drafted, Event::claims_begun, claiming},
    {claiming, Event::claims_begun, claiming},
    {claiming_outdated, Event::claims_begun, claiming_outdated},
    {changed, Event::claims_made, to_plan},
    {drafted, Event::claims_made, to_plan},
    {claiming, Event::claims_made, claimed},
    {claiming_outdated, Event::claims_made, claimed_outdated},

    {changed, Event::put_off, idle},
    {drafted, Event::put_off, idle},
    {to_plan, Event::put_off, idle},
    {claimed_outdated, Event::put_off, changed},

    {to_plan, Event::plan_begun, planning},
    {claimed, Event::plan_begun, planning},
    {claimed_outdated, Event::plan_begun, planning_outdated},
    {planning, Event::plan_begun, planning},
    {planning_outdated, Event::plan_begun, planning_outdated},
    {planning, Event::plan_ended, changed},
    {planning_outdated, Event::plan_ended, changed},
    {to_plan, Event::planned, idle},
    {claimed, Event::planned, idle},
    {claimed_outdated, Event::planned, changed},
    {planning, Event::planned, idle},
    {planning_outdated, Event::planned, changed},
});

}  // namespace

std::span<const StageTransition> stage_transitions() noexcept { return transitions; }

std::optional<Stage> next_stage(Stage from, StageEvent event) noexcept {
  const auto* const found = std::ranges::find_if(
      transitions, [&](const auto& each) { return each.from == from && each.event == event; });
  return found == transitions.end() ? std::nullopt : std::optional(found->to);
}

const char* name_of(Stage stage) noexcept {
  static constexpr std::array<const char*, stages> names = {"idle",
                                                            "changed",
                                                            "drafted",
                                                            "claiming",
                                                            "claiming, outdated",
                                                            "claimed",
                                                            "claimed, outdated",
                                                            "to plan",
                                                            "to plan, outdated",
                                                            "planning",
                                                            "planning, outdated"};
  return names.at(static_cast<std::size_t>(stage));
}

const char* name_of(StageEvent event) noexcept {
  static constexpr std::array<const char*, stage_events> names = {
      "touched",     "affected", "due",        "drafted",    "claims begun",
      "claims made", "put off",  "plan begun", "plan ended", "planned"};
  return names[static_cast<std::size_t>(event)];
}

StageQueue queue_of(Stage stage) noexcept {
  if (stage == idle) {
    return StageQueue::none;
  }
  if (stage < claimed) {
    return StageQueue::to_read;
  }
  return stage < planning ? StageQueue::to_plan : StageQueue::under_way;
}

}  // namespace lb::agent
