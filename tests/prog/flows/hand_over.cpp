// SPDX-License-Identifier: Apache-2.0
// The walk that hands flows over to conntrack, with real flow tables and a fake conntrack (REL-84).
#include "agent/tables/hand_over.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tests/prog/flows/expiry_flows.hpp"

namespace lb::test {
namespace {

using agent::DrainedTables;
using agent::hand_over;
using agent::HandOver;
using agent::HandOverCount;
using agent::other_key;
using agent::RemainReason;
using agent::Tracked;
using agent::TrackedTuple;
using expiry_test::flow4;
using expiry_test::FlowLab;
using expiry_test::key4;

boost::system::error_code error_of(int number) { return {number, boost::system::generic_category()}; }

class FakeFilter final : public agent::TupleFilter {
 public:
  boost::system::error_code drop(std::span<const TrackedTuple> tuples) override {
    if (tuples.empty()) {
      at_end();
    }
    dropped.assign(tuples.begin(), tuples.end());
    ++calls;
    return {};
  }
  [[nodiscard]] bool drops(const TrackedTuple& tuple) const {
    return std::ranges::find(dropped, tuple) != dropped.end();
  }

  std::vector<TrackedTuple> dropped;
  std::size_t calls = 0;
  std::function<void()> at_end = [] {};  ///< called before packets pass again
};

/// Refuses a connection whose tuple exists already, as the kernel does.
class FakeConntrack final : public agent::ConntrackTable {
 public:
  explicit FakeConntrack(const FakeFilter& filter) : filter_(filter) {}

  boost::system::result<Tracked> find(const TrackedTuple& original) override {
    const auto at = std::ranges::find(entries, original, &Tracked::original);
    if (at == entries.end()) {
      return error_of(ENOENT);
    }
    return *at;
  }
  boost::system::error_code erase(const TrackedTuple& original) override {
    return std::erase_if(entries, [&](const auto& each) { return each.original == original; }) > 0
               ? boost::system::error_code()
               : error_of(ENOENT);
  }
  boost::system::error_code track(const Tracked& flow, std::uint32_t /*seconds*/) override {
    if (refusals > 0) {
      return --refusals, error_of(ENOMEM);
    }
    const bool taken = std::ranges::any_of(entries, [&](const auto& each) {
      return each.original == flow.original || each.reply == flow.reply;
    });
    if (taken) {
      return error_of(EEXIST);
    }
    entries.push_back(flow);
    // A packet that our programs translate now would begin another connection.
    if (!filter_.drops(agent::reversed(flow.reply)) || !filter_.drops(agent::reversed(flow.original))) {
      ++undropped;
    }
    return {};
  }

  std::vector<Tracked> entries;
  int refusals = 0;   ///< track() fails so many times
  int undropped = 0;  ///< calls of track() at which packets of the flow were not dropped

 private:
  const FakeFilter& filter_;
};

/// Assured and unassured flows, each in their own tables.
struct Drained {
  FlowLab assured{128};
  FlowLab unassured{64};
  FakeFilter filter;
  FakeConntrack conntrack{filter};

  HandOverCount walk(HandOver handing = HandOver::allowed) {
    const DrainedTables tables{assured.flows4, assured.flows6, unassured.flows4, unassured.flows6};
    const auto count = hand_over(tables, {conntrack, &filter}, handing, assured.clock);
    REQUIRE(count.has_value());
    return *count;
  }
  [[nodiscard]] std::uint32_t now() const { return assured.clock; }

  /// conntrack's entries for one flow: the future one, and the one so far.
  struct ByStack {
    Tracked ours, stacks;
  };
  /// Adds a TCP flow that passes the stack after our translation, with the host's mark and source NAT.
  ByStack add_by_stack() {
    auto flow = flow4(1);
    flow.track = expiry_test::track({LB_OPEN, now()}, LB_FORWARD);
    flow.track.path = LB_PATH_STACK;
    REQUIRE_FALSE(assured.flows4.put(key4(1, LB_TCP), flow, maps::Put::any));
    const auto ours = agent::tracked_of(key4(1, LB_TCP), flow);
    REQUIRE(ours);
    Tracked stacks{.original = agent::reversed(ours->reply), .reply = ours->reply, .mark = 7};
    stacks.reply.destination_port = 4711;
    conntrack.entries = {stacks};
    return {*ours, stacks};
  }
};

std::size_t left(const HandOverCount& count, RemainReason reason) {
  return count.left.at(static_cast<std::size_t>(reason)).count;
}

}  // namespace

TEST_CASE("REL-84 flows that live are handed over, and both of their entries go") {
  Drained drained;
  const auto now = drained.now();
  drained.assured.add4(1, LB_TCP, {LB_OPEN, now}, {LB_OPEN, now});
  drained.assured.add4(2, LB_UDP, {LB_OPEN, now}, {LB_OPEN, now});
  drained.assured.add6(3, LB_TCP, {LB_OPEN, now}, {LB_CLOSING, now});
  const auto count = drained.walk();
  CHECK(count.handed == 3);
  CHECK(count.all_left() == 0);
  CHECK(drained.conntrack.entries.size() == 3);
  CHECK_FALSE(drained.assured.flows4.get(key4(1, LB_TCP)).has_value());
  CHECK_FALSE(drained.assured.flows4.get(other_key(key4(1, LB_TCP), flow4(1))).has_value());
  CHECK(drained.walk().handed == 0);
}

TEST_CASE("REL-84 a flow's packets are dropped while conntrack and we both translate it") {
  Drained drained;
  const auto now = drained.now();
  const std::uint32_t more_than_one_batch = 40;
  for (std::uint32_t i = 1; i <= more_than_one_batch; ++i) {
    drained.assured.add4(i, LB_TCP, {LB_OPEN, now}, {LB_OPEN, now});
  }
  std::vector<std::size_t> translated_twice;
  drained.filter.at_end = [&] {
    std::size_t entries = 0;
    REQUIRE_FALSE(drained.assured.flows4.for_each([&](const auto&, const auto&) { ++entries; }));
    const auto ours = entries / 2;
    translated_twice.push_back(ours + drained.conntrack.entries.size() - more_than_one_batch);
  };
  CHECK(drained.walk().handed == more_than_one_batch);
  CHECK(drained.conntrack.undropped == 0);
  CHECK(translated_twice == std::vector<std::size_t>{0, 0});
  CHECK(drained.filter.calls == 4);
  CHECK(drained.filter.dropped.empty());
}

TEST_CASE("REL-84 replies that the stack translates before us are dropped as the backend sends them") {
  Drained drained;
  const auto [ours, stacks] = drained.add_by_stack();
  bool dropped = false;
  drained.filter.at_end = [&] {
    dropped = drained.filter.drops(stacks.original) && drained.filter.drops(stacks.reply) &&
              drained.filter.drops(agent::reversed(ours.original));
  };
  CHECK(drained.walk().handed == 1);
  CHECK(dropped);
}

TEST_CASE("REL-84 an assured flow's entry of before it was proven goes with it, or would prove it anew") {
  Drained drained;
  drained.assured.add4(1, LB_TCP, {LB_OPEN, drained.now()}, {LB_OPEN, drained.now()});
  drained.unassured.add4(1, LB_TCP, {LB_OPEN, drained.now()}, {LB_OPEN, drained.now()});
  const auto count = drained.walk();
  CHECK(count.handed == 1);
  CHECK(left(count, RemainReason::handshake) == 0);
  CHECK_FALSE(drained.unassured.flows4.get(key4(1, LB_TCP)).has_value());
  CHECK_FALSE(drained.unassured.flows4.get(other_key(key4(1, LB_TCP), flow4(1))).has_value());
}

TEST_CASE("REL-84 a handshake is waited for until it is abandoned") {
  Drained drained;
  drained.unassured.add4(1, LB_TCP, {LB_OPEN, drained.now()}, {LB_OPEN, drained.now()});
  CHECK(left(drained.walk(), RemainReason::handshake) == 1);
  drained.assured.clock += 4;
  CHECK(drained.walk().all_left() == 0);
  CHECK(drained.conntrack.entries.empty());
}

TEST_CASE("REL-84 unanswered datagrams are handed over") {
  Drained drained;
  drained.unassured.add4(1, LB_UDP, {LB_OPEN, drained.now()}, {LB_OPEN, drained.now()});
  CHECK(drained.walk().handed == 1);
  CHECK_FALSE(drained.unassured.flows4.get(key4(1, LB_UDP)).has_value());
}

TEST_CASE("REL-84 a flow that a packet refreshes during the walk is in use") {
  Drained drained;
  const auto later = drained.now() + 1;
  drained.unassured.add6(1, LB_UDP, {LB_OPEN, later}, {LB_OPEN, later});
  drained.unassured.add4(2, LB_TCP, {LB_OPEN, later}, {LB_OPEN, later});
  const auto count = drained.walk();
  CHECK(count.handed == 1);
  CHECK(left(count, RemainReason::handshake) == 1);
}

TEST_CASE("REL-84 where conntrack refuses a flow, the stack keeps its own entry for it") {
  Drained drained;
  const auto stacks = drained.add_by_stack().stacks;
  drained.conntrack.refusals = 1;
  CHECK(left(drained.walk(), RemainReason::refused) == 1);
  REQUIRE(drained.conntrack.entries.size() == 1);
  CHECK(drained.conntrack.entries[0].original == stacks.original);
  CHECK(drained.conntrack.entries[0].reply == stacks.reply);
  CHECK(drained.conntrack.entries[0].mark == 7);
  CHECK(drained.walk().handed == 1);
  CHECK(drained.conntrack.entries[0].reply == stacks.reply);
}

TEST_CASE("REL-84 what has ended is not handed over, and not waited for") {
  Drained drained;
  const auto now = drained.now();
  drained.assured.add4(1, LB_TCP, {LB_CLOSING, now}, {LB_CLOSING, now});
  drained.assured.add4(2, LB_TCP, {LB_RESET, now}, {LB_OPEN, now});
  const auto count = drained.walk();
  CHECK(count.handed == 0);
  CHECK(count.all_left() == 0);
}

TEST_CASE("REL-84 what stays is counted by its reason, and shown") {
  Drained drained;
  const auto now = drained.now();
  drained.assured.add4(1, LB_SCTP, {LB_OPEN, now}, {LB_OPEN, now});
  CHECK(left(drained.walk(), RemainReason::sctp) == 1);
  drained.assured.add4(2, LB_TCP, {LB_OPEN, now}, {LB_OPEN, now});
  const auto nobody = drained.walk(HandOver::forbidden);
  CHECK(left(nobody, RemainReason::no_successor) == 2);
  CHECK(nobody.left.at(static_cast<std::size_t>(RemainReason::no_successor)).examples.size() == 2);
  CHECK(drained.conntrack.entries.empty());
}

TEST_CASE("REL-84 an entry of another client that conntrack has on the answers' tuple is not taken away") {
  Drained drained;
  drained.assured.add4(1, LB_TCP, {LB_OPEN, drained.now()}, {LB_OPEN, drained.now()});
  auto other = agent::tracked_of(key4(1, LB_TCP), [&] {
    auto flow = flow4(1);
    flow.track = expiry_test::track({LB_OPEN, drained.now()}, LB_FORWARD);
    return flow;
  }());
  REQUIRE(other);
  other->original.source_port = 1;
  drained.conntrack.entries.push_back(*other);
  const auto count = drained.walk();
  CHECK(left(count, RemainReason::refused) == 1);
  CHECK(count.refusal.value() == EEXIST);
  CHECK(drained.conntrack.entries.size() == 1);
  CHECK(drained.assured.flows4.get(key4(1, LB_TCP)).has_value());
}

}  // namespace lb::test
