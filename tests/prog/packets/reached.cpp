// SPDX-License-Identifier: Apache-2.0
// Whether the tables reach every outcome of a packet, and whether every program loads with every
// configuration (REL-95).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string_view>
#include <vector>

#include "tests/prog/packets/table.hpp"

namespace lb::test {
namespace {

/// Outcomes that no test run can reach, each with its reason.
constexpr std::array unreachable = {
    // Every header is read before it is written, and a checksum lies within its header: only a kernel that
    // lacks the memory to make a shared packet writable refuses.
    std::string_view("rewrite_failed"),
    // Two tasks on one CPU (tests/prog/flows/interleaved.cpp), whose addresses collide.
    std::string_view("scratch_busy"),
};

#define LB_OUTCOME_ACTION_NAME(name, action, meaning) #action,
constexpr std::array<std::string_view, LB_OUTCOME_COUNT> actions = {LB_OUTCOMES(LB_OUTCOME_ACTION_NAME)};
#undef LB_OUTCOME_ACTION_NAME

lb_config with(unsigned features) {
  lb_config config = Settings().config;
  const auto on = [features](unsigned bit) { return (features & bit) != 0 ? LB_YES : LB_NO; };
  config.fib_source = on(1);
  config.fib_mark = config.fib_source;  // one more flag of the same call
  config.csum_ipv6 = on(2);
  config.ct_lookup = on(4);
  config.host_sockets = on(8);
  config.stack_forwards = config.host_sockets;  // one affects sockets, the other packets
  // Independent code paths: they need no configurations of their own.
  config.skb_sums = config.ct_lookup;
  config.preemptible = config.csum_ipv6;
  return config;
}

/// Parts of the programs are left out one after another, which is what an agent does (REL-130).
lb_choices parts(unsigned features) {
  const auto on = [features](unsigned kept) { return features % 4 == kept ? LB_NO : LB_YES; };
  return {.tc_fastpath = on(1), .xdp_fastpath = on(2), .egress_verdicts = on(3), .pad = 0};
}

/// All combinations of four choices; with SLUICE_CHOICES=pairs, as on emulated processors, so few that any
/// two choices are met in all combinations.
std::vector<unsigned> configurations() {
  if (std::getenv("SLUICE_CHOICES") != nullptr) {
    return {0, 7, 11, 13, 14};
  }
  std::vector<unsigned> all(16);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

}  // namespace

TEST_CASE("every outcome of a packet is reached by a table") {
  Counts counts{};
  TableRunner runner;
  for (const auto& [file, table] : tables_by_settings()) {
    const auto result = runner.run(table);
    for (std::size_t at = 0; at < counts.size(); ++at) {
      counts[at] += result.counts[at];
    }
  }
  for (std::size_t at = 0; at < counts.size(); ++at) {
    if (actions[at] == "CALL") {
      continue;  // outcomes of socket calls, which the net tests reach
    }
    INFO(outcome_name(at));
    const bool excused = std::ranges::find(unreachable, outcome_name(at)) != unreachable.end();
    CHECK((counts[at] > 0) == !excused);
  }
}

TEST_CASE("every program loads with every configuration") {
  std::map<std::string, std::pair<std::uint32_t, std::uint32_t>> sizes;
  for (const auto features : configurations()) {
    for (const auto& [name, instructions] : verify_all(with(features), parts(features))) {
      CHECK(instructions > 0);
      const auto [entry, fresh] = sizes.try_emplace(name, instructions, instructions);
      entry->second.first = std::min(entry->second.first, instructions);
      entry->second.second = std::max(entry->second.second, instructions);
    }
  }
  CHECK(sizes.size() >= 3);
  fmt::print("instructions that the verifier went through, over all configurations:\n");
  for (const auto& [name, range] : sizes) {
    fmt::print("  {:14} {:6} to {:6}\n", name, range.first, range.second);
  }
}

}  // namespace lb::test
