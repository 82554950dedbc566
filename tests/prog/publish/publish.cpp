// SPDX-License-Identifier: Apache-2.0
// Proof that publishing never shows a mixed set: two services are swapped between disjoint sets of backends,
// thousands of times, while another processor selects from both. SLUICE_LONG=1 runs the long form.
#include <array>
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <cstdlib>

#include "agent/tables/tables.hpp"
#include "tests/prog/publish/lab.hpp"

using namespace lb::tables_test;
using lb::agent::Batch;
using std::chrono::steady_clock;

namespace {

constexpr std::uint32_t set_size = 50000;

bool long_form() { return std::getenv("SLUICE_LONG") != nullptr; }

/// A deliberate fault that the checker must detect: grace periods without waiting.
class NoGrace final : public lb::maps::GracePeriod {
 public:
  explicit NoGrace(lb::maps::Post post) : post_(std::move(post)) {}
  void after(std::function<void()> done) override { post_(std::move(done)); }

 private:
  lb::maps::Post post_;
};

struct Swap {
  std::uint32_t slots = set_size;
  std::uint32_t modulus = 0;  ///< 2: alternate between two sets; 0: new endpoints each time
  std::uint32_t held = 0;     ///< idle steps of readers between set and slot
  RealLimits limits{};
};

/// Little room, so that everything is reused as soon as possible, and readers that take longer than a swap
/// (REL-2).
constexpr Swap tiny{.slots = 500, .modulus = 0, .held = 200000, .limits = {.backends = 2600, .slots = 1800}};

class Swapper {
 public:
  Swapper(lb::maps::GracePeriod& grace, Calls& calls, Swap swap)
      : maps_(swap.limits),
        calls_(calls),
        swap_(swap),
        sweeper_(calls.post()),
        checker_(maps_, {.held = swap.held, .modulus = swap.modulus}),
        tables_(maps_.store(), grace, sweeper_,
                [this](const lb::k8s::Complaint& c) { complaint_ = c.reason; }) {
    tables_.apply(Batch::whole, {tagged_change(0, 0, swap.slots), tagged_change(1, 0, swap.slots)});
    for (std::uint32_t generation = 0; generation < 2; ++generation) {
      for (std::uint32_t service = 0; service < 2; ++service) {
        if (swap.modulus == 2) {
          plans_.at(service).at(generation) = tagged_change(service, generation, swap.slots);
        }
      }
    }
    checker_.begin();
  }

  /// Publishes the service's next generation. It may have to wait for room.
  void swap(std::uint32_t service) {
    const std::uint32_t generation = ++generations_.at(service);
    auto change = swap_.modulus == 2 ? plans_.at(service).at(generation % 2)
                                     : tagged_change(service, generation, swap_.slots);
    checker_.starts(service, generation);
    tables_.apply(Batch::changes, {std::move(change)});
    calls_.run();
    while (!tables_.complete() && complaint_.empty()) {
      calls_.wait();
    }
    checker_.shown(service, generation);
    ++swaps_;
  }

  [[nodiscard]] Counted counted() const { return checker_.counted(); }
  [[nodiscard]] std::uint64_t swaps() const noexcept { return swaps_; }
  [[nodiscard]] const std::string& complaint() const noexcept { return complaint_; }

 private:
  RealMaps maps_;
  Calls& calls_;
  Swap swap_;
  NothingNamed sweeper_;
  SelectionChecker checker_;
  std::string complaint_;
  lb::agent::Tables tables_;
  std::array<std::array<lb::agent::PlanChange, 2>, 2> plans_;
  std::array<std::uint32_t, 2> generations_{};
  std::uint64_t swaps_ = 0;
};

}  // namespace

TEST_CASE("REL-1 REL-2 SEM-50 publishing: no selection is ever outside the sets of its service") {
  const auto swap = GENERATE(Swap{.modulus = 2}, Swap{.modulus = 0}, tiny);
  const std::uint64_t selections = (long_form() ? 60'000'000 : 3'000'000) / (swap.held > 0 ? 2000 : 1);
  const std::uint64_t swaps = long_form() ? (swap.modulus == 2 ? 5000 : 1000) : 100;
  Calls calls;
  auto grace = lb::maps::KernelGrace::open(calls.post());
  REQUIRE(grace.has_value());
  Swapper swapper(**grace, calls, swap);
  while (swapper.swaps() < swaps || swapper.counted().selections < selections) {
    swapper.swap(static_cast<std::uint32_t>(swapper.swaps() % 2));
    REQUIRE(swapper.complaint().empty());
    if (swapper.counted().wrong() > 0) {
      break;
    }
  }
  const Counted counted = swapper.counted();
  if (long_form()) {
    WARN(swapper.swaps() << " swaps of " << swap.slots << " slots, modulus " << swap.modulus << ", held "
                         << swap.held << ", " << counted.text());
  }
  INFO(counted.text());
  CHECK(counted.selections >= selections);
  CHECK(counted.misses == 0);
  CHECK(counted.strangers == 0);
  CHECK(counted.torn == 0);
  CHECK(counted.untimely == 0);
}

TEST_CASE("publishing: the checker detects a writer that waits for no grace period") {
  Calls calls;
  NoGrace grace(calls.post());
  Swapper swapper(grace, calls, tiny);
  const auto deadline = steady_clock::now() + std::chrono::seconds(30);
  while (swapper.counted().wrong() == 0 && steady_clock::now() < deadline) {
    swapper.swap(static_cast<std::uint32_t>(swapper.swaps() % 2));
  }
  INFO(swapper.counted().text());
  CHECK(swapper.counted().wrong() > 0);
}

TEST_CASE("publishing: the checker detects a writer that reuses ids in use") {
  RealMaps maps;
  Calls calls;
  NoGrace grace(calls.post());
  NothingNamed sweeper(calls.post());
  lb::agent::Tables tables(maps.store(), grace, sweeper, [](const lb::k8s::Complaint&) {});
  tables.apply(Batch::whole, {tagged_change(0, 0, set_size), tagged_change(1, 0, set_size)});
  SelectionChecker checker(maps, {});
  checker.begin();
  const auto deadline = steady_clock::now() + std::chrono::seconds(30);
  for (std::uint32_t generation = 1; checker.counted().torn == 0 && steady_clock::now() < deadline;
       ++generation) {
    checker.starts(0, generation);
    for (std::uint32_t id = 1; id <= set_size; ++id) {
      lb_backend backend = tagged_backend(0, generation, id);
      backend.service = maps.backends.load(id).service;
      maps.backends.store(id, backend);
    }
    checker.shown(0, generation);
  }
  INFO(checker.counted().text());
  CHECK(checker.counted().torn > 0);
}
