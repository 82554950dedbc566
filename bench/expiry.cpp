// SPDX-License-Identifier: Apache-2.0
// Expiry: the cost of a walk over many flows, and how long its longest step blocks the agent. Run as root.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/clock.hpp"
#include "bench/rows.hpp"
#include "tests/prog/flows/expiry_flows.hpp"

namespace {

using namespace lb::expiry_test;
using lb::bench::cell;

constexpr const char* part = "expiry";
constexpr int rounds = 3;
constexpr std::uint64_t mebibytes = 1024;
constexpr double max_share = 1;  ///< percent of a CPU

/// The pause between steps. The agent pauses longer; without a pause, a later step would include the kernel's
/// freeing of what earlier steps deleted.
constexpr std::chrono::milliseconds breath{2};

double cpu_milliseconds() {
  return std::chrono::duration<double, std::milli>(lb::agent::thread_time()).count();
}

/// CPU time of one round in milliseconds.
struct Cost {
  double total = 0;
  double longest_step = 0;
  double round = 0;  ///< elapsed time of the round
  std::uint32_t steps = 0;
};

Cost walk(FlowLab& lab) {
  Cost cost;
  for (const auto round = lab.expiry.rounds(); lab.expiry.rounds() == round; ++cost.steps) {
    const double begin = cpu_milliseconds();
    const auto pause = lab.expiry.step();
    const double took = cpu_milliseconds() - begin;
    if (!pause) {
      throw std::runtime_error(pause.error().message());
    }
    cost.round += static_cast<double>(pause->count());
    std::this_thread::sleep_for(breath);
    cost.total += took;
    cost.longest_step = std::max(cost.longest_step, took);
  }
  return cost;
}

/// Prints and records the costs; returns the share of a CPU in percent.
double print_costs(const std::string& what, std::uint32_t flows, const std::vector<Cost>& costs) {
  const auto figure = [&](const char* name, const char* unit, auto of) {
    std::vector<double> values(costs.size());
    std::ranges::transform(costs, values.begin(), of);
    const auto spread = lb::bench::spread_of(std::move(values));
    lb::bench::keep({part, fmt::format("{}: {}", what, name), unit, spread, "flows", flows});
    return spread;
  };
  const auto total = figure("CPU of a walk", "ms", [](const Cost& cost) { return cost.total; });
  const auto longest = figure("longest step", "ms", [](const Cost& cost) { return cost.longest_step; });
  const auto share =
      figure("of a core", "%", [](const Cost& cost) { return cost.total / (cost.round + cost.total) * 100; });
  fmt::print("| {} | {} | {} | {} | {} | {} |\n", flows, what, costs.front().steps, cell(total, 1),
             cell(longest, 2), cell(share, 2));
  std::fflush(stdout);
  return share.value;
}

/// A lab in which `over` of each hundred flows have ended.
std::unique_ptr<FlowLab> lab_of(std::uint32_t flows, std::uint32_t limit, std::uint32_t over) {
  auto lab = std::make_unique<FlowLab>(limit, lb::agent::ExpiryPace{}, lb::agent::thread_time);
  for (std::uint32_t number = 0; number < flows; ++number) {
    const bool ended = number % 100 < over;
    const EntryState entry{ended ? LB_CLOSING : LB_OPEN, ended ? lab->clock - 100 : lab->clock - 20};
    lab->add4(number, LB_TCP, entry, entry);
  }
  return lab;
}

/// The largest share of a CPU in percent.
double measure(std::uint32_t flows, std::uint32_t limit) {
  auto lab = lab_of(flows, limit, 0);
  (void)walk(*lab);  // the first walk touches the memory for the first time
  std::vector<Cost> costs(rounds);
  for (auto& cost : costs) {
    cost = walk(*lab);
  }
  double most = print_costs("all live", flows, costs);
  for (const std::uint32_t over : {10U, 100U}) {
    for (auto& cost : costs) {
      lab.reset();
      lab = lab_of(flows, limit, over);
      cost = walk(*lab);
    }
    most = std::max(most, print_costs(fmt::format("{} % have ended", over), flows, costs));
  }
  return most;
}

}  // namespace

int main() {
  try {
    lb::bench::need_memory(mebibytes);
    fmt::print("CPU of one walk over all flows: median of {} (least–most)\n\n", rounds);
    fmt::print("| flows | of which | steps | total, ms | longest step, ms | % of a core |\n");
    fmt::print("|---|---|---|---|---|---|\n");
    measure(1000, LB_MAX_FLOWS);
    measure(100'000, LB_MAX_FLOWS);
    const bool reached = measure(1'000'000, 2'500'000) < max_share;
    fmt::print("\nless than {} % of a core at a million flows: {}\n", max_share, reached ? "yes" : "NO");
    return reached ? EXIT_SUCCESS : lb::bench::figure_missed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_expiry: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
