// SPDX-License-Identifier: Apache-2.0
// Publishing: the time from a plan to the switch to its extent, for one service with many backends, in real
// kernel maps. Run as root.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "agent/tables/tables.hpp"
#include "bench/rows.hpp"
#include "tests/prog/lib/real_maps.hpp"

namespace {

using namespace lb::tables_test;
using lb::agent::Batch;
using Plan = std::shared_ptr<lb::agent::ServicePortPlan>;

constexpr const char* part = "publish";
constexpr int rounds = 21;
constexpr std::uint64_t mebibytes = 512;

Plan plan_of(std::uint32_t count, std::uint32_t generation) {
  auto plan = std::make_shared<lb::agent::ServicePortPlan>();
  plan->key.name = "default/bench";
  plan->frontends.push_back({.address = {}, .port = 80, .kind = LB_CLUSTER_IP});
  std::vector<lb::agent::BackendPlan> backends(count);
  for (std::uint32_t at = 0; at < count; ++at) {
    auto& backend = backends[at];
    std::memcpy(backend.address.bytes.data(), &generation, sizeof(generation));
    std::memcpy(backend.address.bytes.data() + 12, &at, sizeof(at));
    backend.port = 8080;
    backend.in_cluster = backend.serving = true;
  }
  plan->backends = backends;
  return plan;
}

/// As planning does: all chunks but one are shared.
lb::agent::BackendList with_one_replaced(const lb::agent::BackendList& before, std::size_t which) {
  auto chunks = before.chunks();
  auto& chunk = chunks[which / lb::agent::BackendChunk::max_size];
  std::vector<lb::agent::BackendPlan> backends(chunk->backends().begin(), chunk->backends().end());
  backends[which % lb::agent::BackendChunk::max_size].address.bytes[0] = 99;
  chunk = std::make_shared<const lb::agent::BackendChunk>(std::move(backends));
  return lb::agent::BackendList(std::move(chunks));
}

/// An agent with its own maps.
struct Bench {
  Calls calls;
  RealMaps maps{{.backends = 1U << 20U}};
  std::unique_ptr<lb::maps::KernelGrace> grace = lb::maps::KernelGrace::open(calls.post()).value();
  NothingNamed sweeper{calls.post()};
  lb::agent::Tables tables{maps.store(), *grace, sweeper,
                           [](const lb::k8s::Complaint& complaint) { fmt::print("{}\n", complaint.reason); }};

  void apply(Batch batch, const Plan& plan) {
    tables.apply(batch, {{.service = plan->key.name, .ports = {plan}}});
  }
  void rest() {
    calls.wait();
    while (!tables.complete()) {
      calls.wait();
    }
  }
};

/// `step` prepares round n and returns the function that is timed.
void measure(const char* what, std::uint32_t count, const std::function<std::function<void()>(int)>& step) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const auto timed = step(round);
    const auto begin = std::chrono::steady_clock::now();
    timed();
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  const auto spread = lb::bench::spread_of(std::move(times));
  fmt::print("| {} | {} | {} |\n", count, what, lb::bench::cell(spread, 3));
  lb::bench::keep({part, what, "ms", spread, "backends", count});
}

void measure_first(std::uint32_t count) {
  const Plan plan = plan_of(count, 0);
  measure("first plan", count, [&](int) {
    auto bench = std::make_shared<Bench>();
    return [bench, &plan] { bench->apply(Batch::whole, plan); };
  });
}

void measure_changes(std::uint32_t count) {
  Bench bench;
  std::vector<Plan> plans{plan_of(count, 0), plan_of(count, 1)};
  bench.apply(Batch::whole, plans[0]);
  const auto apply = [&](const Plan& plan) { return [&bench, plan] { bench.apply(Batch::changes, plan); }; };
  measure("nothing changed", count, [&](int) { return apply(plans[0]); });
  measure("one replaced", count, [&](int round) {
    if (round > 0) {
      bench.rest();
    }
    auto plan = std::make_shared<lb::agent::ServicePortPlan>(*plans[0]);
    plan->backends = with_one_replaced(plans[0]->backends, static_cast<std::size_t>(round) * 997 % count);
    return apply(plan);
  });
  bench.rest();
  measure("all replaced", count, [&](int round) {
    if (round > 0) {
      bench.rest();
    }
    return apply(plan_of(count, 2 + static_cast<std::uint32_t>(round)));
  });
}

}  // namespace

int main() {
  try {
    lb::bench::need_memory(mebibytes);
    fmt::print("Milliseconds from plan to flip: median of {} rounds (least–most)\n\n", rounds);
    fmt::print("| backends | what | ms |\n|---|---|---|\n");
    for (const std::uint32_t count : {100U, 10'000U, 100'000U}) {
      measure_first(count);
      measure_changes(count);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_publish: {}\n", error.what());
    return 1;
  }
  return 0;
}
