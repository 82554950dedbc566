// Consistent selection: what a table costs, how even it is, and how much moves beyond the share of the
// members that go.
#include "agent/maglev.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <unordered_map>
#include <vector>

namespace {

using lb::agent::MaglevMember;

std::vector<MaglevMember> members(std::uint32_t count) {
  std::vector<MaglevMember> made(count);
  for (std::uint32_t number = 0; number < count; ++number) {
    made[number].address.bytes = {0,
                                  0,
                                  0,
                                  0,
                                  0,
                                  0,
                                  0,
                                  0,
                                  0,
                                  0,
                                  0xff,
                                  0xff,
                                  10,
                                  static_cast<std::uint8_t>(number >> 16),
                                  static_cast<std::uint8_t>(number >> 8),
                                  static_cast<std::uint8_t>(number)};
    made[number].port = 8080;
    made[number].id = number + 1;
  }
  return made;
}

double largest_share(const std::vector<std::uint32_t>& slots, std::uint32_t count) {
  std::unordered_map<std::uint32_t, std::uint32_t> loads;
  std::uint32_t most = 0;
  for (const auto id : slots) most = std::max(most, ++loads[id]);
  return double{1} * most * count / static_cast<double>(slots.size());
}

void measure(std::uint32_t count, std::uint32_t size, std::mt19937& random) {
  const auto before = members(count);
  std::vector<std::uint32_t> slots;
  const auto start = std::chrono::steady_clock::now();
  lb::agent::maglev_slots(before, size, slots);
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  auto after = before;
  std::shuffle(after.begin(), after.end(), random);
  after.resize(count - std::max(1U, count / 10));
  std::vector<std::uint32_t> next;
  lb::agent::maglev_slots(after, size, next);
  std::uint32_t moved = 0;
  for (std::uint32_t slot = 0; slot < size; ++slot) moved += slots[slot] != next[slot] ? 1U : 0U;
  const double gone = static_cast<double>(count - after.size()) / count;
  fmt::print(
      "{:6} members {:7} slots {:8.2f} ms, largest share {:.3f} of the mean, beyond the share {:+.2f} %\n",
      count, size, taken.count(), largest_share(slots, count), 100 * (moved / double{1} / size - gone));
}

}  // namespace

int main() {
  std::mt19937 random(1);
  for (const std::uint32_t size : {16381U, 65521U}) {
    for (const std::uint32_t count : {10U, 100U, 160U, 1000U}) measure(count, size, random);
  }
}
