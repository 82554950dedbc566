// SPDX-License-Identifier: Apache-2.0
// An agent killed at any instruction: readers see consistent state, and the next agent restores what a clean
// start would have written (REL-38). SLUICE_LONG=1 kills 1,000 times.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "tests/lib/seed.hpp"
#include "tests/prog/lib/real_maps.hpp"
#include "tests/unit/tables/fakes.hpp"

using namespace lb::tables_test;
using lb::agent::Batch;
using lb::agent::PlanChange;

namespace {

constexpr int services = 6;
const RealLimits room{.frontends = 64, .services = 24, .backends = 4096, .slots = 4096};

PlanChange change_at(std::mt19937& random) {
  const auto number = static_cast<std::uint8_t>(1 + random() % services);
  const std::string name = "s" + std::to_string(number);
  if (random() % 5 == 0) {
    return change(name, {});
  }
  std::vector<std::uint8_t> lasts;
  for (int last = 1; last <= 250; ++last) {
    if (random() % 2 == 0) {
      lasts.push_back(static_cast<std::uint8_t>(last));
    }
  }
  return change(service(name, number, lasts));
}

/// Runs an agent until its process is killed.
[[noreturn]] void live(RealMaps& maps, unsigned seed, int ready) {
  Calls calls;
  auto grace = lb::maps::KernelGrace::open(calls.post()).value();
  ManualSweeper sweeper;
  lb::agent::Tables tables(maps.store(), *grace, sweeper, [](const lb::k8s::Complaint&) {});
  if (!tables.adopt()) {
    ::_exit(2);
  }
  std::mt19937 random(seed);
  if (::write(ready, "", 1) != 1) {
    ::_exit(3);
  }
  tables.apply(Batch::whole, {change_at(random)});
  for (;;) {
    tables.apply(Batch::changes, {change_at(random)});
    calls.run();
    if (tables.complete()) {
      sweeper.finish();
    } else {
      calls.wait();
    }
  }
}

/// Starts an agent, and kills it after this time.
void start_and_kill(RealMaps& maps, unsigned seed, std::chrono::microseconds after) {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    live(maps, seed, pipe[1]);
  }
  ::close(pipe[1]);
  char byte = 0;
  const bool began = ::read(pipe[0], &byte, 1) == 1;
  std::this_thread::sleep_for(after);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(pipe[0]);
  REQUIRE(began);
  REQUIRE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
}

}  // namespace

TEST_CASE(
    "an agent killed at any moment leaves whole tables, and the next start ends where a clean one does") {
  const auto seed = lb::test::seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  RealMaps maps(room);
  const std::vector<PlanChange> last{change(service("s1", 1, {1, 2, 3})), change(service("s9", 9, {4}))};
  const auto clean = clean_lines(last);
  const int kills = std::getenv("SLUICE_LONG") != nullptr ? 1000 : 60;
  for (int round = 0; round < kills; ++round) {
    INFO("kill " << round);
    start_and_kill(maps, static_cast<unsigned>(random()), std::chrono::microseconds(random() % 15000));
    REQUIRE_FALSE(torn(lines(maps.store())));
    if (round % 10 != 9) {
      continue;
    }
    ManualGrace grace;
    ManualSweeper sweeper;
    lb::agent::Tables next(maps.store(), grace, sweeper, [](const lb::k8s::Complaint&) {});
    REQUIRE(next.adopt().has_value());
    next.apply(Batch::whole, last);
    const auto settle = [&] {
      while (!grace.waiting.empty() || sweeper.waiting) {
        grace.pass();
        sweeper.finish();
      }
    };
    settle();
    next.retry();
    settle();
    CHECK(next.complete());
    CHECK(lines(maps.store()) == clean);
    CHECK(used(maps.store(), next) == Used{.names = 2, .backends = 4, .slots = 4});
  }
}
