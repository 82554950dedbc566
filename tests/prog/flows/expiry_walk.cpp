// SPDX-License-Identifier: Apache-2.0
// Expiry in real tables: which flows end, which stay, and a walk while other threads delete and insert
// (REL-23, 74).
#include <atomic>
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "tests/prog/flows/expiry_flows.hpp"

namespace {

using namespace lb::agent;
using namespace lb::expiry_test;
using namespace std::chrono_literals;

constexpr std::uint32_t agent_step = ExpiryPace{}.step_entries;

template <class Table>
std::uint32_t entries(const Table& table) {
  std::uint32_t count = 0;
  REQUIRE_FALSE(table.for_each([&](const auto&, const auto&) { ++count; }));
  return count;
}

std::uint64_t ended(const FlowLab& lab, Ending ending) {
  return lab.expiry.ended().at(static_cast<std::size_t>(ending));
}

/// Flows 0 to 999 of one family, a quarter each: in use, closed, silent UDP, one-way UDP.
template <class Add>
void add_thousand(const Add& add, std::uint32_t now) {
  for (std::uint32_t number = 0; number < 1000; ++number) {
    switch (number % 4) {
      case 0:
        add(number, LB_TCP, EntryState{LB_OPEN, now - 5000}, EntryState{LB_OPEN, now - 5000});
        break;
      case 1:
        add(number, LB_TCP, EntryState{LB_CLOSING, now - 70}, EntryState{LB_CLOSING, now - 61});
        break;
      case 2:
        add(number, LB_UDP, EntryState{LB_OPEN, now - 200}, EntryState{LB_OPEN, now - 181});
        break;
      default:
        add(number, LB_UDP, EntryState{LB_OPEN, now - 900}, EntryState{LB_OPEN, now});
        break;
    }
  }
}

TEST_CASE("of a thousand flows of each family those that are over go, both entries, and the others stay") {
  FlowLab lab(4096, {.step_entries = 100});
  add_thousand([&](auto... flow) { lab.add4(flow...); }, lab.clock);
  add_thousand([&](auto... flow) { lab.add6(flow...); }, lab.clock);
  lab.walk();
  CHECK(entries(lab.flows4) == 1000);
  CHECK(entries(lab.flows6) == 1000);
  CHECK(ended(lab, Ending::closed) == 500);
  CHECK(ended(lab, Ending::idle) == 500);
  CHECK(ended(lab, Ending::orphaned) == 0);
  for (std::uint32_t number = 0; number < 1000; ++number) {
    const bool stays = number % 4 == 0 || number % 4 == 3;
    const auto protocol = number % 4 < 2 ? LB_TCP : LB_UDP;
    const auto key = key4(number, protocol);
    const bool forward = lab.flows4.get(key).has_value();
    const bool reply = lab.flows4.get(other_key(key, flow4(number))).has_value();
    CAPTURE(number);
    CHECK(forward == stays);
    CHECK(reply == stays);
    CHECK(lab.flows6.get(key6(number, protocol)).has_value() == stays);
  }
}

TEST_CASE("time passes, and the rest go too") {
  FlowLab lab(4096);
  add_thousand([&](auto... flow) { lab.add4(flow...); }, lab.clock);
  lab.walk();
  lab.clock += 181;
  lab.walk();
  CHECK(entries(lab.flows4) == 500);
  lab.clock += 86400;
  lab.walk();
  CHECK(entries(lab.flows4) == 0);
  CHECK(ended(lab, Ending::idle) == 750);
  CHECK(ended(lab, Ending::closed) == 250);
}

TEST_CASE("orphaned entries: forward ones are removed within 32 rounds, reply ones once idle") {
  FlowLab lab(1024);
  for (std::uint32_t number = 0; number < 50; ++number) {
    lab.add4(number, LB_TCP, {LB_OPEN, lab.clock}, {}, Entries::forward);
    lab.add4(number + 50, LB_TCP, {}, {LB_OPEN, lab.clock}, Entries::reply);
    lab.add4(number + 100, LB_TCP, {LB_OPEN, lab.clock}, {LB_OPEN, lab.clock});
  }
  lab.walk(32);
  CHECK(ended(lab, Ending::orphaned) == 50);
  lab.clock += 61;
  lab.walk(32);
  CHECK(ended(lab, Ending::orphaned) == 100);
  CHECK(entries(lab.flows4) == 100);
}

TEST_CASE("a reply's tuple that belongs to another flow by now is not taken along") {
  FlowLab lab(1024);
  const auto key = key4(1, LB_TCP);
  auto stale = flow4(2);  // refers to flow 2's reply, which refers back to flow 2
  stale.track = track({LB_CLOSING, lab.clock - 100}, LB_FORWARD);
  REQUIRE_FALSE(lab.flows4.put(key, stale, lb::maps::Put::create));
  lab.add4(2, LB_TCP, {LB_OPEN, lab.clock}, {LB_OPEN, lab.clock});
  lab.walk();
  CHECK_FALSE(lab.flows4.get(key).has_value());
  CHECK(lab.flows4.get(key4(2, LB_TCP)).has_value());
  CHECK(lab.flows4.get(other_key(key4(2, LB_TCP), flow4(2))).has_value());
}

TEST_CASE("a walk ends, takes all that is over and no survivor while others delete and insert (REL-74)") {
  constexpr std::uint32_t count = 4000;
  FlowLab lab(8 * count, {.step_entries = 64});
  const auto now = lab.clock;
  for (std::uint32_t number = 0; number < count; ++number) {
    const std::uint32_t seen = number % 2 == 0 ? now : now - 100;
    const lb_state state = number % 2 == 0 ? LB_OPEN : LB_CLOSING;
    lab.add4(number, LB_TCP, {state, seen}, {state, seen});
  }
  std::atomic<bool> stop = false;
  std::atomic<std::uint32_t> rounds = 0;
  std::thread churn([&lab, &stop, &rounds, now] {
    auto& table = lab.flows4;
    for (std::uint32_t round = 0; !stop; ++round, ++rounds) {
      const std::uint32_t number = count + (round % 500);
      const auto key = key4(number, LB_TCP);
      const auto there = other_key(key, flow4(number));
      auto forward = flow4(number);
      auto back = back4(key);
      forward.track = track({LB_CLOSING, now - 100}, LB_FORWARD);
      back.track = track({LB_CLOSING, now - 100}, LB_REPLY);
      (void)table.put(there, back, lb::maps::Put::any);
      (void)table.put(key, forward, lb::maps::Put::any);
      (void)table.erase(key4(number - 250 + (number < count + 250 ? 500 : 0), LB_TCP));
    }
  });
  while (rounds < 1000) {
    std::this_thread::yield();  // every tuple inserted, and most deleted again
  }
  const auto rounds_before = rounds.load();
  const auto steps = lab.walk(3);
  const auto rounds_beside = rounds - rounds_before;
  stop = true;
  churn.join();
  CHECK(rounds_beside > 0);
  CHECK(steps < 3 * 4 * 8 * count / 64);
  for (std::uint32_t number = 0; number < count; ++number) {
    const auto key = key4(number, LB_TCP);
    CAPTURE(number);
    CHECK(lab.flows4.get(key).has_value() == (number % 2 == 0));
    CHECK(lab.flows4.get(other_key(key, flow4(number))).has_value() == (number % 2 == 0));
  }
}

TEST_CASE("half-closed flows go early from a table that is nearly full, and steps come faster") {
  FlowLab lab(1000, {.step_entries = 10});
  const auto even = lab.expiry.step().value();
  CHECK(even == 300ms);  // 60 s, in steps of 10 of 2,000 entries
  lab.walk();
  for (std::uint32_t number = 0; number < 450; ++number) {
    lab.add4(number, LB_TCP, {LB_CLOSING, lab.clock - 70}, {LB_OPEN, lab.clock - 70});
  }
  lab.walk();
  CHECK(lab.expiry.fullness()[0].entries == 900);
  CHECK(lab.expiry.fullness()[0].fill == TableFill::nearly_full);
  CHECK(lab.expiry.fullness()[1].fill == TableFill::normal);
  CHECK(ended(lab, Ending::half_closed) == 0);
  CHECK(lab.expiry.step().value() == 75ms);
  lab.walk();
  CHECK(ended(lab, Ending::half_closed) == 450);
  CHECK(lab.expiry.fullness()[0].fill == TableFill::normal);
}

// bench/expiry.cpp measures CPU time. This counts what causes it: the entries visited, and how often.
TEST_CASE("REL-23 a second's walk looks at a bounded number of entries, however many there are") {
  constexpr std::uint32_t max_per_second = 512 * 1000 / 25;
  for (const std::uint32_t limit : {1000U, 100'000U, 1U << 20U, 1U << 22U}) {
    FlowLab lab(limit);
    const auto pause = lab.expiry.step().value();
    CAPTURE(limit);
    CHECK(std::uint64_t{agent_step} * 1000 / static_cast<std::uint64_t>(pause.count()) <= max_per_second);
  }
  constexpr std::uint32_t flows = 20'000;
  FlowLab lab(4 * flows);
  for (std::uint32_t number = 0; number < flows; ++number) {
    lab.add4(number, LB_TCP, {LB_OPEN, lab.clock}, {LB_OPEN, lab.clock});
  }
  const auto steps = lab.walk();
  CHECK(lab.expiry.fullness()[0].entries == std::uint64_t{2} * flows);  // each entry counted once
  CHECK(steps >= 2 * flows / (agent_step + agent_step / 4));
  CHECK(steps <= (2 * flows / agent_step * 5 / 4) + 4);
}

TEST_CASE(
    "REL-23 after a step the walk rests 120 times as long, on a machine of any speed, and less in haste") {
  std::chrono::nanoseconds taken{};
  FlowLab lab(1000, {.step_entries = 10}, [&taken] { return taken += 20ms; });
  CHECK(lab.expiry.step().value() == 2400ms);
  CHECK(lab.expiry.step().value() == 60s - 2400ms);  // the rest of a round
  for (std::uint32_t number = 0; number < 450; ++number) {
    lab.add4(number, LB_TCP, {LB_OPEN, lab.clock}, {LB_OPEN, lab.clock});
  }
  lab.walk();
  REQUIRE(lab.expiry.fullness()[0].fill == TableFill::nearly_full);
  CHECK(lab.expiry.step().value() == 300ms);
}

TEST_CASE("a round takes its time, whatever the tables hold") {
  FlowLab lab(1000, {.step_entries = 10});
  for (std::uint32_t number = 0; number < 400; ++number) {
    lab.add4(number, LB_TCP, {LB_OPEN, lab.clock}, {LB_OPEN, lab.clock});
  }
  const auto round_of = [&lab] {
    std::chrono::milliseconds time{};
    for (const auto round = lab.expiry.rounds(); lab.expiry.rounds() == round;) {
      time += lab.expiry.step().value();
    }
    return time;
  };
  CHECK(round_of() == 60s);
  CHECK(round_of() == 60s);
  FlowLab large(1U << 21U);
  CHECK(large.expiry.step().value() == 25ms);  // the minimum, not 7 ms
  FlowLab empty(1000);
  CHECK(empty.expiry.step().value() == 1s);  // the other table is next
  CHECK(empty.expiry.step().value() == 59s);
}

}  // namespace
