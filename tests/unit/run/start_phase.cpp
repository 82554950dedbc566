// SPDX-License-Identifier: Apache-2.0
// When hooks are attached, when the node becomes ready (SEM-63), and what a start waits for.
#include "agent/run/start_phase.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

namespace lb::agent {
namespace {

using std::chrono::seconds;

Moment at(seconds time) {
  return {std::chrono::steady_clock::time_point(time), std::chrono::system_clock::time_point(time)};
}

/// A start phase with all hooks attached, whose first batch was written at 100 s.
StartPhase serving(Readiness before) {
  StartPhase phase(before);
  CHECK(phase.set_network_known());
  phase.wrote(at(seconds(100)), {});
  phase.attached();
  return phase;
}

}  // namespace

TEST_CASE("a start goes from the network by the first plan and the hooks to a ready node") {
  StartPhase phase(Readiness::never);
  CHECK(phase.phase() == Phase::starting);
  CHECK(phase.set_network_known());
  CHECK_FALSE(phase.set_network_known());  // true only the first time
  CHECK(phase.phase() == Phase::planning);
  CHECK_FALSE(phase.first_batch());
  phase.wrote(at(seconds(100)), {});
  CHECK(phase.phase() == Phase::attaching);
  CHECK_FALSE(phase.is_serving());
  CHECK_FALSE(phase.check_ready({}, at(seconds(101))));
  phase.attached();
  CHECK(phase.is_serving());
  CHECK_FALSE(phase.is_ready());
  CHECK(phase.check_ready({}, at(seconds(102))));
  CHECK(phase.is_ready());
  CHECK(phase.is_serving());
}

TEST_CASE("hooks wait for the last turn of the first plan") {
  StartPhase phase(Readiness::before);
  CHECK(phase.set_network_known());
  phase.wrote(at(seconds(100)), {.turns = true});
  CHECK(phase.phase() == Phase::planning);
  CHECK_FALSE(phase.check_ready({}, at(seconds(200))));
  phase.wrote(at(seconds(101)), {.tables = true});
  CHECK(phase.phase() == Phase::attaching);
  CHECK(phase.first_batch()->steady == at(seconds(100)).steady);
  phase.attached();
  phase.wrote(at(seconds(102)), {});  // of a finished phase
  CHECK(phase.phase() == Phase::serving);
}

TEST_CASE("what is not in the maps keeps a node from being ready for 30 s") {
  const auto left = GENERATE(Backlog{.labels = true}, Backlog{.turns = true}, Backlog{.tables = true});
  auto phase = serving(Readiness::never);
  CHECK_FALSE(phase.check_ready(left, at(seconds(100))));
  CHECK_FALSE(phase.check_ready(left, at(seconds(129))));
  CHECK(phase.check_ready(left, at(seconds(130))));
}

TEST_CASE("a node that was ready before is ready as soon as it serves, and one that is stays so") {
  const Backlog left{.labels = true, .turns = true, .tables = true};
  auto before = serving(Readiness::before);
  CHECK(before.check_ready(left, at(seconds(100))));
  auto never = serving(Readiness::never);
  CHECK(never.check_ready({}, at(seconds(100))));
  CHECK(never.check_ready(left, at(seconds(101))));
}

TEST_CASE("a start names what it waits for") {
  StartPhase phase(Readiness::never);
  CHECK(phase.step({.objects = true}) == StartStep::network);
  CHECK(phase.set_network_known());
  CHECK(phase.step({.objects = true}) == StartStep::objects);
  CHECK(phase.step({}) == StartStep::plan);
  phase.wrote(at(seconds(100)), {.turns = true});
  CHECK(phase.step({.turns = true}) == StartStep::plan);
  phase.wrote(at(seconds(100)), {});
  CHECK(phase.step({}) == StartStep::plan);
  phase.attached();
  CHECK(phase.step({.labels = true, .turns = true}) == StartStep::labels);
  CHECK(phase.step({.turns = true, .tables = true}) == StartStep::turns);
  CHECK(phase.step({.tables = true}) == StartStep::tables);
  CHECK(phase.check_ready({}, at(seconds(100))));
  CHECK(phase.step({}) == StartStep::serving);
}

}  // namespace lb::agent
