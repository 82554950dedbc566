// SPDX-License-Identifier: Apache-2.0
// Agent, API and map writer in one thread with random time and network: old, missing, truncated or split
// views, servers that refuse, lag, or lose their history or their store, map calls that fail, kills at any of
// them, other programs that write the tables. After all faults end, the maps equal those of a fresh list and
// a clean start (REL-30 to 35, 38, 76 to 78, 82; SEM-17, 70). A failing seed replays exactly: SLUICE_SEED=n;
// SLUICE_LONG runs more seeds.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "agent/observe/health.hpp"
#include "agent/observe/metrics.hpp"
#include "agent/plan/cluster.hpp"
#include "agent/run/intake.hpp"
#include "k8s/encoding/decode.hpp"
#include "maps/abi/checks.h"
#include "simulation_server.hpp"
#include "tests/lib/seed.hpp"
#include "tests/unit/tables/fakes.hpp"

namespace {

using namespace lb;
using k8s::Time;
using simulation::Dice;
using simulation::Objects;
using simulation::Server;

constexpr int turns = 120;
constexpr tables_test::Limits room{.frontends = 64, .services = 64, .backends = 512, .slots = 1024};
/// Long enough for all retries: a silent watch, a pause after many failures, a restored store.
constexpr Time long_enough{600'000};

/// The time, and the actions scheduled for it.
class Clock {
 public:
  struct Ring {
    Time when{0};
    std::function<void()> action;
  };
  using Entry = std::shared_ptr<std::optional<Ring>>;

  [[nodiscard]] Time now() const { return now_; }
  [[nodiscard]] Entry entry() {
    entries_.push_back(std::make_shared<std::optional<Ring>>());
    return entries_.back();
  }
  void pass(Time time) {
    now_ += time;
    for (const auto& entry : std::vector(entries_)) {
      if (*entry && (*entry)->when <= now_) {
        const auto ring = std::exchange(*entry, std::nullopt);
        ring->action();
      }
    }
    std::erase_if(entries_, [](const auto& entry) { return entry.use_count() == 1; });
  }

 private:
  Time now_{1'000'000};
  std::vector<Entry> entries_;
};

class SimulatedAlarm final : public k8s::Alarm {
 public:
  explicit SimulatedAlarm(Clock& clock) : entry_(clock.entry()) {}
  ~SimulatedAlarm() override { entry_->reset(); }
  SimulatedAlarm(const SimulatedAlarm&) = delete;
  SimulatedAlarm& operator=(const SimulatedAlarm&) = delete;
  void set(Time when, std::function<void()> ring) override { *entry_ = Clock::Ring{when, std::move(ring)}; }

 private:
  Clock::Entry entry_;
};

/// Hands plans to the tables, and records whether there was one.
class Writer final : public agent::PlanSink {
 public:
  explicit Writer(agent::Tables& tables) : tables_(tables) {}
  void apply(agent::Batch batch, std::vector<agent::PlanChange> changes) override {
    wrote = true;
    tables_.apply(batch, std::move(changes));
  }
  bool wrote = false;

 private:
  agent::Tables& tables_;
};

/// The model as the agent fills it: Services, slices and Nodes via the plan, ServiceCIDRs directly.
struct Model {
  explicit Model(agent::Tables& tables)
      : writer(tables),
        cluster("n", {}, writer, {}),
        intake(
            cluster, "n", metrics(), health, [] { return agent::Moment{}; },
            [this, &tables] { tables.set_ranges(LB_CLUSTER_IP_RANGES, intake.cluster_ip_ranges()); }) {}

  /// Shared, because no check reads them and they are expensive to make.
  static agent::Metrics& metrics() {
    static agent::Metrics all;
    return all;
  }

  Writer writer;
  agent::Cluster cluster;
  agent::Health health;
  agent::Intake intake;
};

k8s::ApiScope scope() { return {"n", "", "", k8s::ApiEncoding::json}; }

/// An agent from its start until it is killed.
struct Life {
  Life(tables_test::FakeKernel& kernel, Server& server, Clock& clock, std::uint32_t seed)
      : agent(kernel),
        model(agent.tables),
        source(
            scope(),
            {[&server] { return server.connection(); },
             [&clock] { return std::make_unique<SimulatedAlarm>(clock); }, [&clock] { return clock.now(); },
             seed},
            model.intake, [](const std::string& /*message*/) {}, small_pages()) {}

  static k8s::Timeouts small_pages() {
    k8s::Timeouts timeouts;
    timeouts.page = 3;
    return timeouts;
  }

  tables_test::Agent agent;
  Model model;
  k8s::ApiSource source;
};

/// The map lines after a clean start with these objects, computed directly.
std::vector<std::string> oracle(const Objects& objects) {
  tables_test::FakeKernel kernel(room);
  tables_test::Agent agent(kernel);
  Model model(agent.tables);
  const auto decoder = k8s::json_decoder(k8s::Origin::api_server);
  for (const auto& [key, item] : objects.items) {
    if (!item.shown) {
      continue;
    }
    auto decoded = decoder->decode(item.json, key.first);
    if (decoded.object) {
      std::visit([&](auto& object) { model.intake.upsert(std::move(object)); }, *decoded.object);
    }
  }
  model.intake.synced();
  return tables_test::lines(kernel);
}

class Simulation {
 public:
  explicit Simulation(std::uint32_t seed) : seed_(seed), dice_(seed), server_(dice_), kernel_(room) {}

  void run() {
    for (int change = 0; change < 12; ++change) {
      server_.change_something();
    }
    for (int turn = 0; turn < turns; ++turn) {
      survive([this] { live(); });
      if (!damaged_) {
        REQUIRE_FALSE(tables_test::torn(tables_test::lines(kernel_)));
      }
      keep_still_before_the_first_list();
    }
    calm_down();
  }

  [[nodiscard]] int kills() const { return kills_; }

 private:
  /// Runs the action; if it kills the agent, another one starts.
  template <class Action>
  void survive(Action action) {
    try {
      if (!life_) {
        begin_life();
      }
      action();
    } catch (const tables_test::Killed&) {
      ++kills_;
      life_.reset();
      kernel_.faults.kill_at = -1;
    }
  }

  void begin_life() {
    life_ = std::make_unique<Life>(kernel_, server_, clock_, seed_ + static_cast<std::uint32_t>(kills_));
    REQUIRE(life_->agent.tables.adopt().has_value());
    before_ = tables_test::lines(kernel_);
    life_->source.start();
  }

  void live() {
    clock_.pass(Time(dice_.once_in(30) ? 1'000 + dice_.roll(60'000) : dice_.roll(400)));
    if (dice_.once_in(3)) {
      server_.change_something();
    }
    if (dice_.once_in(25)) {
      server_.compact();
    }
    if (dice_.once_in(120)) {
      server_.restore();
    }
    if (dice_.once_in(30)) {
      server_.set_up(dice_.once_in(2));
    }
    if (dice_.once_in(20)) {
      kernel_.faults.fail_at = kernel_.faults.writes + static_cast<int>(dice_.roll(30));
    }
    if (dice_.once_in(20)) {
      kernel_.faults.kill_at = kernel_.faults.writes + static_cast<int>(dice_.roll(60));
    }
    for (auto moves = dice_.roll(12); moves > 0; --moves) {
      server_.advance_some_connection();
    }
    if (dice_.once_in(3)) {
      life_->agent.grace.pass();
    }
    if (dice_.once_in(5)) {
      life_->agent.sweeper.finish();
    }
    if (dice_.once_in(8)) {
      life_->agent.tables.retry();
    }
    if (dice_.once_in(12)) {
      meddle();
    }
    if (dice_.once_in(60)) {
      throw tables_test::Killed();
    }
  }

  /// Another program removes, changes or adds an entry, and the agent repairs it (SEM-70): at once, because
  /// packets would see the damage too.
  void meddle() {
    auto& entries = kernel_.frontends.entries;
    if (!life_->model.writer.wrote || entries.empty()) {
      return;
    }
    const auto victim = std::next(entries.begin(), dice_.roll(static_cast<unsigned>(entries.size())));
    auto foreign = victim->second;
    switch (dice_.roll(5)) {
      case 0:
        entries.erase(victim);
        break;
      case 1:
        victim->second.second.kind = LB_EXTERNAL_IP;
        break;
      case 2:
      case 3:
        meddle_with_arrays(foreign.second.service);
        break;
      default:
        foreign.first.port = 4711;
        foreign.second.check = lb_frontend_check(&foreign.first);
        kernel_.frontends.insert(foreign.first, foreign.second);
        tables_test::reserve(kernel_.store(),
                             foreign.first.port);  // or it would be torn, if it is a node port
    }
    const auto failed = [](const auto& table) { return static_cast<bool>(table.failure); };
    for (int again = 0; again < 20 && std::ranges::any_of(life_->agent.tables.repair(), failed); ++again) {
      life_->agent.settle();
    }
    CHECK(life_->agent.tables.repair().empty());
    // Services that wait for their plan are repaired only after it has come.
    damaged_ = damaged_ && tables_test::torn(tables_test::lines(kernel_));
  }

  /// Zeroes a service's row, or changes one of its slots or the slot's backend. An agent that is killed
  /// meanwhile leaves the repair to the next.
  void meddle_with_arrays(std::uint32_t number) {
    damaged_ = true;
    auto row = kernel_.services.load(number);
    const auto slot = row.cluster.first + dice_.roll(std::max(row.cluster.count, 1U));
    const auto id = kernel_.slots.load(slot);
    auto backend = kernel_.backends.load(id);
    if (row.cluster.count == 0 || dice_.once_in(3)) {
      row.cluster.count = 0;
      kernel_.services.store(number, row);
    } else if (dice_.once_in(2)) {
      kernel_.slots.store(slot, 0);
    } else {
      backend.port = 4711;
      kernel_.backends.store(id, backend);
    }
  }

  /// Checks that no agent changes the maps before it knows the desired state (REL-78).
  void keep_still_before_the_first_list() {
    if (life_ && !life_->model.writer.wrote) {
      REQUIRE(tables_test::lines(kernel_) == before_);
    }
  }

  void calm_down() {
    kernel_.faults.fail_at = kernel_.faults.kill_at = -1;
    server_.set_faults(false);
    server_.set_up(true);
    const auto wanted = oracle(server_.now());
    const auto until = clock_.now() + long_enough;
    while (clock_.now() < until && !(in_sync() && tables_test::lines(kernel_) == wanted)) {
      survive([this] {
        clock_.pass(Time(500));
        server_.deliver_all();
        life_->agent.settle();
        if (life_->agent.tables.retry_in()) {
          life_->agent.tables.retry();
        }
      });
    }
    CHECK(tables_test::lines(kernel_) == wanted);
    CHECK(in_sync());
  }

  [[nodiscard]] bool in_sync() const {
    return life_ && life_->model.writer.wrote && life_->agent.tables.complete();
  }

  std::uint32_t seed_;
  Dice dice_;
  Clock clock_;
  Server server_;
  tables_test::FakeKernel kernel_;
  bool damaged_ = false;
  std::unique_ptr<Life> life_;
  std::vector<std::string> before_;
  int kills_ = 0;
};

}  // namespace

TEST_CASE(
    "REL-82 simulation: whatever the API, the network and the kernel do, the maps end as a fresh list's") {
  const bool is_given = std::getenv("SLUICE_SEED") != nullptr;
  const auto first = test::seed();
  const std::uint32_t count = is_given ? 1 : std::getenv("SLUICE_LONG") != nullptr ? 100'000 : 1'000;
  int kills = 0;
  for (std::uint32_t at = 0; at < count; ++at) {
    INFO("SLUICE_SEED=" << first + at);
    Simulation simulation(first + at);
    simulation.run();
    kills += simulation.kills();
  }
  if (!is_given) {
    CHECK(kills > static_cast<int>(count));
  }
}
