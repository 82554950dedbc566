// SPDX-License-Identifier: Apache-2.0
// Highest-rank-wins (rendezvous) hashing: each slot ranks all members by a hash of both, so removing a member
// does not change the others' slots. Maglev's own permutations move more (2 % beyond the share for 100
// members in 16,381 slots). Ranks alone are uneven, so a member that has its maximum is skipped, which moves
// a few of the last slots.
#include "agent/plan/rendezvous.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

#include "maps/abi/abi.h"
#include "maps/abi/checks.h"

namespace lb::agent {
namespace {

constexpr std::uint64_t spread = 0xbf58476d1ce4e5b9ULL;
constexpr std::uint64_t excess_parts = 20;  // at most a twentieth above its share

struct Contender {
  std::uint64_t name = 0;
  std::uint32_t room = 0;  ///< number of slots that it may still get
  std::uint32_t weight = 1;
  std::uint32_t id = 0;
};

/// Hash of the endpoint, not of its id, which differs between nodes.
std::uint64_t name_of(const RendezvousMember& member) {
  const auto* bytes = member.address.bytes.data();
  return lb_mix(lb_mix(lb_mix(0, lb_word(bytes)), lb_word(bytes + 8)), member.port);
}

std::vector<Contender> contenders_of(std::span<const RendezvousMember> members, std::uint32_t size) {
  std::uint64_t total = 0;
  for (const auto& member : members) {
    total += member.weight;
  }
  std::vector<Contender> contenders;
  contenders.reserve(members.size());
  for (const auto& member : members) {
    const std::uint64_t share = std::uint64_t{size} * member.weight;
    const auto room = share * (excess_parts + 1) / (total * excess_parts) + 1;
    contenders.push_back({name_of(member), static_cast<std::uint32_t>(room), member.weight, member.id});
  }
  return contenders;
}

std::uint64_t rank(std::uint64_t slot, std::uint64_t name) { return lb_mix(slot, name) * spread; }

/// -log2(rank / 2^64) in units of 2^-20, by whole bits and a parabola between them (at most 0.01 bits off):
/// equal on every machine, unlike the mathematics library's. The rank is never 0 here.
std::uint64_t depth(std::uint64_t rank) {
  constexpr unsigned unit = 20;
  const auto zeros = static_cast<unsigned>(std::countl_zero(rank));
  const std::uint64_t fraction = (rank << zeros << 1U) >> (64 - unit);
  const std::uint64_t parabola = fraction * ((std::uint64_t{1} << unit) - fraction) >> unit;
  constexpr std::uint64_t coefficient = 360710;  // 0.344 in those units
  const std::uint64_t part = fraction + (parabola * coefficient >> unit);
  return ((std::uint64_t{zeros} + 1) << unit) - part;
}

std::size_t best_of_equals(const std::vector<Contender>& contenders, std::uint64_t slot) {
  std::uint64_t highest = 0;
  std::size_t best = contenders.size();
  for (std::size_t at = 0; at < contenders.size(); ++at) {
    const auto mine = rank(slot, contenders[at].name);
    if (contenders[at].room > 0 && (best == contenders.size() || mine > highest)) {
      highest = mine;
      best = at;
    }
  }
  return best;
}

/// The smallest depth divided by weight wins, with a probability that is the weight's share.
std::size_t best_by_weight(const std::vector<Contender>& contenders, std::uint64_t slot) {
  std::uint64_t least = 0;
  std::size_t best = contenders.size();
  for (std::size_t at = 0; at < contenders.size(); ++at) {
    const auto& each = contenders[at];
    const auto mine = (depth(rank(slot, each.name) | 1U) << 20U) / each.weight;
    if (each.room > 0 && (best == contenders.size() || mine < least)) {
      least = mine;
      best = at;
    }
  }
  return best;
}

}  // namespace

void rendezvous_slots(std::span<const RendezvousMember> members, std::uint32_t size,
                      std::vector<std::uint32_t>& slots) {
  slots.clear();
  if (members.size() == 1) {
    slots.push_back(members[0].id);
  }
  if (members.size() < 2) {
    return;
  }
  auto contenders = contenders_of(members, size);
  const bool equal =
      std::ranges::all_of(contenders, [&](const auto& each) { return each.weight == contenders[0].weight; });
  slots.reserve(size);
  for (std::uint32_t slot = 0; slot < size; ++slot) {
    const auto seed = lb_mix(spread, slot);
    auto& winner = contenders[equal ? best_of_equals(contenders, seed) : best_by_weight(contenders, seed)];
    --winner.room;
    slots.push_back(winner.id);
  }
}

}  // namespace lb::agent
