// SPDX-License-Identifier: Apache-2.0
// The cost of a packet in the programs, in nanoseconds by BPF_PROG_TEST_RUN, compared with the floor
// programs: the most frequent packets with 10 to 1,000,000 slots, all other paths with some. Run as root,
// with the machine idle.
//
// A test run repeats on the same buffer, and the programs rewrite it. So two services mirror each other: the
// backend of one is the frontend of the other. An established packet goes back and forth between two flows
// for as long as its TTL lasts; a new flow's packet is the next new flow's, and each batch uses another
// source address. A batch starts with a fresh packet, and counts only if the outcome's counter increased by
// exactly its size. All tables but those of slots and backends have their default sizes. The kernel cannot
// test-run socket programs: bench/run's part connections measures them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/floor.hpp"
#include "bench/paths.hpp"
#include "bench/rows.hpp"

namespace lb::bench {
namespace {

using namespace lb::test;

constexpr const char* part = "programs";
constexpr std::array<std::uint32_t, 3> sizes = {10, 10'000, 1'000'000};
constexpr std::uint32_t usual_size = 10'000;
constexpr int rounds = 15;
constexpr double max_growth = 1.5;
constexpr std::uint64_t mebibytes = 1024;

std::string series(Hook hook, int family, const std::string& what) {
  return fmt::format("{}, IPv{}, {}", name_of(hook), family, what);
}

/// The median of the rounds' means.
template <class Batch>
Spread measure(Batch batch, std::uint32_t count = batches) {
  std::vector<double> means(rounds);
  for (auto& mean : means) {
    mean = round_mean(batch, count);
  }
  return spread_of(std::move(means));
}

/// A measured item: set up by `begin`, then run in batches at each turn.
struct Turn {
  std::function<void()> begin;
  std::function<double()> batch;
};

Turn turn_of(Floor floor, std::uint32_t device, int family, Hook hook, std::uint32_t repeat) {
  const auto& names = names_of(family);
  const Tuple there{
      family, 6, {address(names.client), client_port}, {address(names.frontends[0]), service_port}};
  const Tuple next{
      family, 6, {address(names.node), client_port}, {address(names.frontends[1]), service_port}};
  const auto floors = std::make_shared<Floors>(there, next);
  return {[=] { floors->attach(floor, device); },
          [=, packet = build(there, {.hops = 255})] { return floors->run(floor, hook, packet, repeat); }};
}

Turn turn_of(Case made) {
  const auto owned = std::make_shared<Case>(std::move(made));
  return {[owned] { owned->mirror->attach(); }, [owned] { return owned->batch(); }};
}

Spread floor_of(Floor floor, std::uint32_t device, int family, Hook hook, std::uint32_t repeat) {
  const auto turn = turn_of(floor, device, family, hook, repeat);
  turn.begin();
  return measure(turn.batch);
}

void measure_floor(const char* what, Floor floor, std::uint32_t device, int family, Hook hook) {
  const auto cost = floor_of(floor, device, family, hook, hops_per_batch);
  const auto name = fmt::format("floor: {}", what);
  fmt::print("| {} | IPv{} | {} | {} | | | |\n", name_of(hook), family, name, cell(cost));
  keep({part, series(hook, family, name), "ns", cost});
}

/// One kind of packet at one hook, with services of each size.
struct Row {
  std::array<Spread, sizes.size()> nanoseconds;
  Spread growth;  ///< ratio of the last size to the first
};

void print_row(const Row& row, const char* what, int family, Hook hook) {
  fmt::print("| {} | IPv{} | {} |", name_of(hook), family, what);
  for (std::size_t at = 0; at < sizes.size(); ++at) {
    fmt::print(" {} |", cell(row.nanoseconds[at]));
    keep({part, series(hook, family, what), "ns", row.nanoseconds[at], "slots", sizes[at]});
  }
  fmt::print(" {} |\n", cell(row.growth, 2));
  keep({part, series(hook, family, what) + fmt::format(": {} slots / {}", sizes.back(), sizes.front()),
        "ratio", row.growth});
  std::fflush(stdout);
}

/// The sizes take turns within each round, because other load on the machine would cause differences between
/// them; the growth is the median of the rounds' own.
Row measured(const char* what, Case (*make)(const Place&), std::uint32_t device, int family, Hook hook) {
  std::array<Case, sizes.size()> cases;
  for (std::size_t at = 0; at < sizes.size(); ++at) {
    cases[at] = make({device, family, hook, sizes[at]});
  }
  std::array<std::vector<double>, sizes.size()> means;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t at = 0; at < sizes.size(); ++at) {
      cases[at].mirror->attach();
      means[at].push_back(round_mean(cases[at].batch));
    }
    ratios.push_back(means.back().back() / means.front().back());
  }
  Row row{{}, spread_of(std::move(ratios))};
  std::ranges::transform(means, row.nanoseconds.begin(), spread_of);
  print_row(row, what, family, hook);
  return row;
}

constexpr std::array compared = {"established / floor", "established / floor that redirects",
                                 "new flow / established", "new flow / one insert",
                                 "unrelated / established"};

/// The ratios that issue and README compare, for one hook and family.
struct Comparison {
  Hook hook;
  int family;
  std::array<Spread, compared.size()> ratios;
  double growth;  ///< the worst of the three
};

/// All compared items take turns within each round: changes of the machine's speed would cause differences
/// between them. Uses the fewest slots.
std::array<Spread, compared.size()> ratios_by_turns(std::uint32_t device, int family, Hook hook) {
  const auto floor = [&](Floor which) { return turn_of(which, device, family, hook, hops_per_batch); };
  const auto of = [&](Case (*make)(const Place&)) {
    return turn_of(make({device, family, hook, sizes.front()}));
  };
  const std::array turns = {floor(Floor::rewrite), floor(Floor::send), floor(Floor::insert),
                            of(established),       of(new_flows),      of(unrelated)};
  std::array<std::vector<double>, compared.size()> ratios;
  for (int round = 0; round < rounds; ++round) {
    std::array<double, turns.size()> mean{};
    for (std::size_t at = 0; at < turns.size(); ++at) {
      turns[at].begin();
      mean[at] = round_mean(turns[at].batch);
    }
    const auto [rewrite, send, insert, known, fresh, others] = mean;
    const std::array found = {known / rewrite, known / send, fresh / known, fresh / insert, others / known};
    for (std::size_t at = 0; at < found.size(); ++at) {
      ratios[at].push_back(found[at]);
    }
  }
  std::array<Spread, compared.size()> spreads;
  std::ranges::transform(ratios, spreads.begin(), spread_of);
  return spreads;
}

Comparison compare(std::uint32_t device, int family, Hook hook) {
  measure_floor("parse", Floor::parse, device, family, hook);
  measure_floor("parse, one look-up, rewrite", Floor::rewrite, device, family, hook);
  measure_floor("the same, counted and redirected", Floor::send, device, family, hook);
  measure_floor("one insert into a table of unassured flows", Floor::insert, device, family, hook);
  const auto known = measured("established", established, device, family, hook);
  const auto fresh = measured("new flow (SYN), source NAT", new_flows, device, family, hook);
  const auto others = measured("unrelated", unrelated, device, family, hook);
  double growth = std::max({known.growth.value, fresh.growth.value, others.growth.value});
  // XDP leaves some of these packets to tc.
  if (hook == Hook::tc_in) {
    const auto looking =
        measured("established UDP, first of a second; single runs", looked_after, device, family, hook);
    growth = std::max(growth, looking.growth.value);
  }
  return {hook, family, ratios_by_turns(device, family, hook), growth};
}

void print_head(const std::vector<std::string>& columns) {
  std::string line = "|";
  for (const auto& column : columns) {
    fmt::print("| {} ", column);
    line += "---|";
  }
  fmt::print("|\n{}\n", line);
}

std::vector<Comparison> measure_sizes(std::uint32_t device) {
  fmt::print("ns a packet: median of {} rounds of {} batches (least–most); columns: slots in all\n\n", rounds,
             batches);
  print_head({"hook", "family", "packet", "10", "10,000", "1,000,000", "last / first"});
  std::vector<Comparison> comparisons;
  for (const auto hook : {Hook::xdp, Hook::tc_in}) {
    for (const int family : {4, 6}) {
      comparisons.push_back(compare(device, family, hook));
    }
  }
  return comparisons;
}

void print_comparisons(const std::vector<Comparison>& comparisons) {
  fmt::print("\nBy turns, with {} slots; medians of the rounds' own ratios (least–most):\n\n", sizes.front());
  std::vector<std::string> columns = {"hook", "family"};
  columns.insert(columns.end(), compared.begin(), compared.end());
  print_head(columns);
  for (const auto& row : comparisons) {
    fmt::print("| {} | IPv{} |", name_of(row.hook), row.family);
    for (std::size_t at = 0; at < compared.size(); ++at) {
      fmt::print(" {} |", cell(row.ratios[at], 2));
      keep({part, series(row.hook, row.family, compared[at]), "ratio", row.ratios[at]});
    }
    fmt::print("\n");
  }
}

/// `cost` measures the path for one family.
template <class Cost>
void print_path(const char* what, Hook hook, Cost cost) {
  fmt::print("| {} | {} |", name_of(hook), what);
  for (const int family : {4, 6}) {
    const Spread nanoseconds = cost(family);
    fmt::print(" {} |", cell(nanoseconds));
    keep({part, series(hook, family, what), "ns", nanoseconds});
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void measure_paths(std::uint32_t device) {
  fmt::print("\nAll other ways, with {} slots; ns as above\n\n", usual_size);
  print_head({"hook", "packet", "IPv4", "IPv6"});
  for (const auto& path : paths()) {
    print_path(path.what, path.hook, [&](int family) {
      const auto made = path.make({device, family, path.hook, usual_size});
      return measure(made.batch, made.batches);
    });
  }
  print_path("floor: parse; single runs", Hook::tc_in,
             [&](int family) { return floor_of(Floor::parse, device, family, Hook::tc_in, 1); });
}

bool run_all() {
  need_memory(mebibytes);
  stay();
  const NetNamespace network;
  const auto device = make_network();
  const auto comparisons = measure_sizes(device);
  print_comparisons(comparisons);
  measure_paths(device);
  const bool reached =
      std::ranges::all_of(comparisons, [](const auto& row) { return row.growth <= max_growth; });
  fmt::print("\nlast / first is to be at most {}: {}\n", max_growth, reached ? "yes" : "NO");
  return reached;
}

}  // namespace
}  // namespace lb::bench

int main() {
  try {
    return lb::bench::run_all() ? 0 : lb::bench::figure_missed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_programs: {}\n", error.what());
    return 1;
  }
}
