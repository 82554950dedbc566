// SPDX-License-Identifier: Apache-2.0
// Consistent selection: the cost of a table, its evenness, and how many slots move beyond those of removed
// members.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/plan/rendezvous.hpp"
#include "bench/rows.hpp"

namespace {

using lb::agent::RendezvousMember;
using lb::bench::cell;

constexpr const char* part = "consistent";
constexpr int rounds = 9;
constexpr std::uint64_t mebibytes = 64;

std::vector<RendezvousMember> members(std::uint32_t count) {
  std::vector<RendezvousMember> made(count);
  for (std::uint32_t number = 0; number < count; ++number) {
    auto& bytes = made[number].address.bytes;
    bytes[10] = bytes[11] = 0xff;
    bytes[12] = 10;
    for (const std::uint32_t byte : {0U, 1U, 2U}) {
      bytes.at(15 - byte) = static_cast<std::uint8_t>(number >> 8 * byte);
    }
    made[number].port = 8080;
    made[number].id = number + 1;
  }
  return made;
}

double largest_share(const std::vector<std::uint32_t>& slots, std::uint32_t count) {
  std::unordered_map<std::uint32_t, std::uint32_t> loads;
  std::uint32_t most = 0;
  for (const auto id : slots) {
    most = std::max(most, ++loads[id]);
  }
  return static_cast<double>(most) * count / static_cast<double>(slots.size());
}

/// Removes a tenth of the members; returns the percentage of slots that move although they belonged to other
/// members.
double moved_beyond(const std::vector<RendezvousMember>& before, const std::vector<std::uint32_t>& slots,
                    std::mt19937& random) {
  auto after = before;
  std::ranges::shuffle(after, random);
  after.resize(before.size() - std::max<std::size_t>(1, before.size() / 10));
  std::vector<std::uint32_t> next;
  lb::agent::rendezvous_slots(after, static_cast<std::uint32_t>(slots.size()), next);
  std::uint32_t moved = 0;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    moved += slots[slot] != next[slot] ? 1U : 0U;
  }
  const double gone = static_cast<double>(before.size() - after.size()) / static_cast<double>(before.size());
  return 100 * (static_cast<double>(moved) / static_cast<double>(slots.size()) - gone);
}

void measure(std::uint32_t count, std::uint32_t size, std::mt19937& random) {
  const auto before = members(count);
  std::vector<std::uint32_t> slots;
  std::vector<double> times;
  std::vector<double> beyond;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    lb::agent::rendezvous_slots(before, size, slots);
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    beyond.push_back(moved_beyond(before, slots, random));
  }
  const auto time = lb::bench::spread_of(std::move(times));
  const auto share = lb::bench::single(largest_share(slots, count));
  const auto moved = lb::bench::spread_of(std::move(beyond));
  fmt::print("| {} | {} | {} | {} | {} |\n", size, count, cell(time, 2), cell(share, 3), cell(moved, 2));
  lb::bench::keep({part, fmt::format("{} slots: time", size), "ms", time, "members", count});
  lb::bench::keep(
      {part, fmt::format("{} slots: largest share of the mean", size), "ratio", share, "members", count});
  lb::bench::keep(
      {part, fmt::format("{} slots: moved beyond the share", size), "%", moved, "members", count});
}

void run_all() {
  lb::bench::need_memory(mebibytes);
  fmt::print("Median of {} rounds (least–most); in each another tenth of the members goes\n\n", rounds);
  fmt::print(
      "| slots | members | ms | largest share / mean | moved beyond the share, % |\n|---|---|---|---|---|\n");
  std::mt19937 random(1);
  for (const std::uint32_t size : {16381U, 65521U}) {
    for (const std::uint32_t count : {10U, 100U, 160U, 1000U}) {
      measure(count, size, random);
    }
  }
}

}  // namespace

int main() {
  try {
    run_all();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_consistent: {}\n", error.what());
    return 1;
  }
}
