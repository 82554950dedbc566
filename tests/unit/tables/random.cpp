// SPDX-License-Identifier: Apache-2.0
// Readers that are delayed at any point of a selection, during random changes: whatever they do next leads to
// an endpoint that their service has had since they began. Grace periods end only after those readers. Also
// in tables that are too small, where each service is written or fails, and nothing waits for ever.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "tests/lib/seed.hpp"
#include "tests/unit/tables/fakes.hpp"

using lb::agent::Batch;
using lb::agent::PlanChange;
using namespace lb::tables_test;

namespace {

/// A program between its lookup of a frontend and its use of the backend.
struct HeldReader {
  std::string service;
  std::uint32_t number = 0;
  lb_set set{};
  std::set<std::uint8_t> allowed;  ///< endpoints planned since it began
  bool before_grace = false;       ///< it began before the current or the next grace period
};

/// How much there is room for, and how many endpoints services choose from: few of them leave and return
/// often.
struct Room {
  Limits limits;
  unsigned endpoints;
};

class Simulation {
 public:
  Simulation(unsigned seed, const Room& room)
      : kernel_(room.limits), endpoints_(room.endpoints), random_(seed) {}

  /// Returns the number of delayed selections.
  int run(int steps) {
    agent_.tables.apply(Batch::whole, {});
    for (int step = 0; step < steps; ++step) {
      change_something();
      if (roll(2) == 0) {
        hold_reader();
      }
      if (roll(3) == 0) {
        finish_readers();
      }
      if (roll(4) == 0) {
        agent_.sweeper.finish();
      }
      if (roll(8) == 0) {
        refer_to_backend();
      }
      if (roll(16) == 0) {
        agent_.tables.retry();
      }
      if (roll(32) == 0) {
        settle();
      }
    }
    settle();
    agent_.sweeper.named = {};
    agent_.tables.retry();
    settle();
    return selections_;
  }
  /// Whether the tables have what an agent with empty tables would write.
  [[nodiscard]] bool is_whole() { return lines(kernel_) == clean_lines(whole()); }
  [[nodiscard]] bool grows() const { return agent_.tables.larger().has_value(); }

 private:
  unsigned roll(unsigned sides) { return static_cast<unsigned>(random_() % sides); }

  /// Ends all that is under way; then each service is written or has failed.
  void settle() {
    finish_readers();
    finish_readers();
    agent_.settle();
    const auto written = lines(kernel_);
    bool failed = false;
    for (const auto& [name, plan] : plans_) {
      failed = failed || agent_.tables.failed(plan->key.name);
      if (agent_.tables.failed(plan->key.name)) {
        continue;
      }
      INFO(name);
      CHECK(std::ranges::includes(written, clean_lines({change(plan)})));
    }
    CHECK(agent_.tables.complete() != failed);
    CHECK(agent_.tables.retry_in().has_value() == failed);
  }

  /// Flows refer to a random backend, and to few others.
  void refer_to_backend() {
    if (roll(4) == 0) {
      agent_.sweeper.named = {};
    }
    const auto id = 1 + roll(kernel_.backends.size() - 1);
    if (const auto number = kernel_.backends.load(id).service; number != 0) {
      agent_.sweeper.named.add(id, number);
    }
  }

  void change_something() {
    const auto frontend = static_cast<std::uint8_t>(1 + roll(4));
    const std::string name = "s" + std::to_string(frontend);
    std::set<std::uint8_t> lasts;
    for (unsigned count = roll(6); count > 0; --count) {
      lasts.insert(static_cast<std::uint8_t>(1 + roll(endpoints_)));
    }
    if (roll(6) == 0) {
      plans_.erase(name);
      agent_.tables.apply(Batch::changes, {change(name, {})});
      return;
    }
    plans_[name] = service(name, frontend, {lasts.begin(), lasts.end()});
    for (HeldReader& reader : readers_) {
      if (reader.service == name) {
        reader.allowed.insert(lasts.begin(), lasts.end());
      }
    }
    agent_.tables.apply(Batch::changes, {change(plans_[name])});
    REQUIRE_FALSE(torn(lines(kernel_)));
  }

  /// Starts a delayed reader. A plan that did not fit yet may be pending, so the previous plan's endpoints
  /// are allowed, too.
  void hold_reader() {
    if (kernel_.frontends.entries.empty()) {
      return;
    }
    auto entry = kernel_.frontends.entries.begin();
    std::advance(entry, roll(static_cast<unsigned>(kernel_.frontends.entries.size())));
    const std::uint32_t number = entry->second.second.service;
    const std::string name(lb::maps::stored_text(kernel_.names.get(number)->service));
    const lb_set set = kernel_.services.load(number).cluster;
    std::set<std::uint8_t> allowed = now(number, set);
    readers_.push_back({.service = name.substr(8),
                        .number = number,
                        .set = set,
                        .allowed = std::move(allowed),
                        .before_grace = agent_.grace.waiting.empty()});
  }

  std::set<std::uint8_t> now(std::uint32_t number, lb_set set) {
    std::set<std::uint8_t> lasts;
    for (std::uint32_t at = 0; at < set.count; ++at) {
      const lb_backend found = kernel_.backends.load(kernel_.slots.load(set.first + at));
      if (found.service == number) {
        lasts.insert(found.address[15]);
      }
    }
    return lasts;
  }

  /// Ends the current grace period.
  void finish_readers() {
    std::deque<HeldReader> later;
    for (HeldReader& reader : std::exchange(readers_, {})) {
      if (reader.before_grace) {
        finish(reader);
      } else {
        reader.before_grace = true;
        later.push_back(std::move(reader));
      }
    }
    readers_ = std::move(later);
    agent_.grace.pass();
  }

  void finish(const HeldReader& reader) {
    if (reader.set.count == 0) {
      return;
    }
    const std::uint32_t id = kernel_.slots.load(reader.set.first + roll(reader.set.count));
    const lb_backend found = kernel_.backends.load(id);
    REQUIRE(found.service == reader.number);
    REQUIRE(reader.allowed.contains(found.address[15]));
    ++selections_;
  }

  std::vector<PlanChange> whole() const {
    std::vector<PlanChange> all;
    for (const auto& [name, plan] : plans_) {
      all.push_back(change(plan));
    }
    return all;
  }

  FakeKernel kernel_;
  Agent agent_{kernel_};
  unsigned endpoints_;
  std::mt19937 random_;
  std::map<std::string, Plan> plans_;
  std::deque<HeldReader> readers_;
  int selections_ = 0;
};

}  // namespace

TEST_CASE("delayed readers never select another service's backend, whatever changes meanwhile") {
  const Room room{.limits = {.frontends = 8, .services = 8, .backends = 32, .slots = 40}, .endpoints = 30};
  const auto base = lb::test::seed();
  int selections = 0;
  for (unsigned seed = base; seed < base + 100; ++seed) {
    INFO("seed " << seed);
    Simulation simulation(seed, room);
    selections += simulation.run(200);
    CHECK(simulation.is_whole());
  }
  CHECK(selections > 3000);
}

TEST_CASE(
    "SEM-81 in tables that are too small each service is written or fails, whatever leaves and returns") {
  Limits limits{.frontends = 8, .services = 8, .backends = 64, .slots = 64};
  SECTION("few backends") { limits.backends = 12; }
  SECTION("few slots") { limits.slots = 14; }
  SECTION("few service ports") { limits.services = 4; }
  SECTION("few of all") { limits = {.frontends = 3, .services = 4, .backends = 12, .slots = 14}; }
  const auto base = lb::test::seed();
  int grown = 0;
  for (unsigned seed = base; seed < base + 50; ++seed) {
    INFO("seed " << seed);
    Simulation simulation(seed, {.limits = limits, .endpoints = 6});
    simulation.run(200);
    CHECK(simulation.grows() != simulation.is_whole());
    grown += simulation.grows() ? 1 : 0;
  }
  CHECK(grown > 0);
}
