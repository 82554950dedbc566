// How large tables would have to be for what they had no room for.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "agent/tables/tables.hpp"

namespace lb::agent {
namespace {

/// At least the double, so that growing is rare; a power of two, because hashes take that much anyway.
std::uint32_t grown(std::uint32_t now, std::uint64_t needed) {
  const auto wanted = std::bit_ceil(std::max(std::uint64_t{now} * 2, needed));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, most_map_entries));
}

bool is_below(maps::Extent extent, std::uint32_t limit) { return extent.first + extent.count <= limit; }

}  // namespace

/// At the first try what goes in the same batch may still be in the way.
void Tables::note_short(std::uint32_t Sizes::* table) {
  if (failures_ == 0 || std::ranges::find(short_, table) != short_.end()) return;
  short_.push_back(table);
}

/// Entries that all which was refused could take. Slots twice: a set that changes has an old and a new
/// extent.
std::uint64_t Tables::waiting(std::uint32_t Sizes::* table) const {
  std::uint64_t entries = 0;
  for (const auto& [service, pending] : pending_) {
    for (const auto& port : pending.change.ports) {
      if (table == &Sizes::frontends) entries += port->frontends.size();
      if (table == &Sizes::ranges) entries += port->source_ranges.size();
      if (table == &Sizes::services) entries += 1;
      if (table == &Sizes::backends) entries += port->backends.size();
      if (table == &Sizes::slots) entries += 2 * publisher_.slots(*port);
    }
  }
  return entries;
}

Sizes Tables::sizes() const {
  Sizes now;
  now.frontends = frontends_.limit();
  now.ranges = ranges_.limit();
  now.services = reclaimer_.service_pool().limit();
  now.backends = reclaimer_.backend_pool().limit();
  now.slots = reclaimer_.slot_arena().limit();
  return now;
}

/// Sets that change want room for an old and a new extent, and what comes back soon should find room, too.
std::optional<Sizes> Tables::smaller(std::uint32_t least) const {
  constexpr std::uint64_t spare = 4;
  Sizes sizes = this->sizes();
  const std::uint64_t used = sizes.slots - reclaimer_.slot_arena().available();
  const auto wanted = std::max<std::uint64_t>(std::bit_ceil(used * spare), least);
  if (!complete() || wanted * 2 > sizes.slots) return std::nullopt;
  sizes.slots = static_cast<std::uint32_t>(wanted);
  return sizes;
}

bool Tables::lower_slots(std::uint32_t limit) {
  constexpr std::uint32_t most = 1U << 16U;  // half a millisecond
  std::uint32_t moved = 0;
  bool all = true;
  for (const auto& [service, ports] : services_) {
    for (const auto& [key, state] : ports) {
      if (moved < most && usable(state->number)) moved += publisher_.lower(*state, limit);
      all = all && is_below(state->cluster, limit) && is_below(state->local, limit);
    }
  }
  if (moved > 0) reclaimer_.flush();
  return all;
}

std::optional<Sizes> Tables::larger() const {
  const Sizes now = sizes();
  Sizes sizes = now;
  for (const auto table : short_) sizes.*table = grown(now.*table, now.*table + waiting(table));
  return sizes == now ? std::nullopt : std::optional(sizes);
}

}  // namespace lb::agent
