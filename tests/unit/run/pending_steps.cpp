// SPDX-License-Identifier: Apache-2.0
// Which steps run, when, and in which order.
#include "agent/run/pending_steps.hpp"

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <vector>

namespace lb::agent {
namespace {

/// Records which steps each pass runs, and how many passes were scheduled.
struct Agenda {
  PendingSteps pending{[this] { ++scheduled; }};
  unsigned scheduled = 0;

  std::vector<Step> pass(const std::function<void(Step)>& act = [](Step) {}) {
    std::vector<Step> taken;
    pending.pass([&](Step step) {
      taken.push_back(step);
      act(step);
    });
    return taken;
  }
};

using Steps = std::vector<Step>;

}  // namespace

TEST_CASE("however much is marked, one pass is scheduled until it has ended") {
  Agenda agenda;
  CHECK(agenda.scheduled == 0);
  agenda.pending.mark({});
  CHECK(agenda.scheduled == 0);
  agenda.pending.mark({Step::tables, Step::devices});
  agenda.pending.mark({Step::tables});
  CHECK(agenda.scheduled == 1);
  CHECK(agenda.pass() == Steps{Step::devices, Step::tables});
  CHECK(agenda.scheduled == 1);
  agenda.pending.mark({Step::tables});
  CHECK(agenda.scheduled == 2);
  CHECK(agenda.pass() == Steps{Step::tables});
  CHECK(agenda.pass().empty());
  CHECK(agenda.scheduled == 2);
}

TEST_CASE("steps are taken in the order of the enum, whatever order they are marked in") {
  Agenda agenda;
  agenda.pending.mark({Step::reports, Step::attach});
  agenda.pending.mark({Step::node, Step::addresses});
  CHECK(agenda.pass() == Steps{Step::addresses, Step::node, Step::attach, Step::reports});
}

TEST_CASE("a step that is marked on the way is taken in the same pass if its turn is still to come") {
  Agenda agenda;
  agenda.pending.mark({Step::ipsec, Step::reports});
  const auto taken = agenda.pass([&](Step step) {
    if (step == Step::ipsec) {
      agenda.pending.mark({Step::redirected_flows, Step::node});
    }
  });
  CHECK(taken == Steps{Step::ipsec, Step::node, Step::redirected_flows, Step::reports});
  CHECK(agenda.scheduled == 1);
}

TEST_CASE("no step is taken while an earlier one is marked") {
  Agenda agenda;
  agenda.pending.mark({Step::source});
  const auto first = agenda.pass([&](Step step) {
    // A source that reports at once: the Node's addresses are new, and the first plan is written.
    if (step == Step::source) {
      agenda.pending.mark({Step::attach, Step::addresses});
    }
  });
  CHECK(first == Steps{Step::source});
  CHECK(agenda.scheduled == 2);
  CHECK(agenda.pass() == Steps{Step::addresses, Step::attach});
  CHECK(agenda.scheduled == 2);
}

TEST_CASE("a step that marks itself is taken once a pass") {
  Agenda agenda;
  agenda.pending.mark({Step::readiness});
  const auto again = [&](Step step) { agenda.pending.mark({step}); };
  for (unsigned passes = 1; passes < 4; ++passes) {
    CHECK(agenda.scheduled == passes);
    CHECK(agenda.pass(again) == Steps{Step::readiness});
  }
}

}  // namespace lb::agent
