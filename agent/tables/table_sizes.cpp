// SPDX-License-Identifier: Apache-2.0
// Decides the table sizes.
#include "agent/tables/table_sizes.hpp"

#include <algorithm>
#include <bit>

namespace lb::agent {
namespace {

/// At least doubles the size, so that growing is rare; a power of two, because hashes take that much anyway.
std::uint32_t grown(std::uint32_t now, std::uint64_t needed) {
  const auto wanted = std::bit_ceil(std::max(std::uint64_t{now} * 2, needed));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, max_map_entries));
}

bool is_below(maps::Extent extent, std::uint32_t limit) { return extent.first + extent.count <= limit; }

}  // namespace

void TableSizes::note_full(Table table) {
  if (!is_retry_ || std::ranges::find(full_, table) != full_.end()) {
    return;
  }
  full_.push_back(table);
}

void TableSizes::note_retry() {
  is_retry_ = true;
  full_.clear();
}

void TableSizes::note_success() {
  is_retry_ = false;
  full_.clear();
}

/// Number of entries that all failed plans need. Slots count twice: a set that changes has an old and a new
/// extent.
std::uint64_t TableSizes::entries(Table table, const RetryQueue& waiting) const {
  std::uint64_t entries = 0;
  waiting.for_each_port([&](const ServicePortPlan& port) {
    if (table == &Sizes::frontends) {
      entries += port.frontends.size();
    }
    if (table == &Sizes::ranges) {
      entries += port.source_ranges.size();
    }
    if (table == &Sizes::services) {
      entries += 1;
    }
    if (table == &Sizes::backends) {
      entries += port.backends.size();
    }
    if (table == &Sizes::slots) {
      entries += 2 * tables_.publisher.slots(port);
    }
  });
  return entries;
}

Sizes TableSizes::now() const {
  Sizes now;
  now.frontends = tables_.frontends.limit();
  now.ranges = tables_.ranges.limit();
  now.services = tables_.reclaimer.service_pool().limit();
  now.backends = tables_.reclaimer.backend_pool().limit();
  now.slots = tables_.reclaimer.slot_arena().limit();
  return now;
}

std::optional<Sizes> TableSizes::larger(const RetryQueue& waiting) const {
  const Sizes now = this->now();
  Sizes sizes = now;
  for (const auto table : full_) {
    sizes.*table = grown(now.*table, now.*table + entries(table, waiting));
  }
  return sizes == now ? std::nullopt : std::optional(sizes);
}

/// Changing sets need room for an old and a new extent, and sets that soon grow again need room too.
std::optional<Sizes> TableSizes::smaller(std::uint32_t min_slots) const {
  constexpr std::uint64_t spare = 4;
  Sizes sizes = now();
  const std::uint64_t used = sizes.slots - tables_.reclaimer.slot_arena().available();
  const auto wanted = std::max<std::uint64_t>(std::bit_ceil(used * spare), min_slots);
  if (wanted * 2 > sizes.slots) {
    return std::nullopt;
  }
  sizes.slots = static_cast<std::uint32_t>(wanted);
  return sizes;
}

bool TableSizes::lower_slots(std::uint32_t limit) {
  constexpr std::uint32_t max_moved = 1U << 16U;  // half a millisecond
  std::uint32_t moved = 0;
  bool all = true;
  for (const auto& [service, ports] : tables_.services.all()) {
    for (const auto& [key, state] : ports) {
      if (moved < max_moved && tables_.services.is_usable(state->number)) {
        moved += tables_.publisher.lower(*state, limit);
      }
      all = all && is_below(state->cluster, limit) && is_below(state->local, limit);
    }
  }
  if (moved > 0) {
    tables_.reclaimer.flush();
  }
  return all;
}

}  // namespace lb::agent
