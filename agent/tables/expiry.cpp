// SPDX-License-Identifier: Apache-2.0
// Decides when a flow has ended, and walks the tables to end it.
#include "agent/tables/expiry.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "maps/abi/checks.h"

namespace lb::agent {

namespace {

/// A UDP exchange that lasts longer counts as a stream, as in conntrack.
constexpr std::uint32_t stream_seconds = 2;
/// In one of this many rounds an entry's other entry is checked although this one is in use. A power of two.
constexpr std::uint64_t orphan_rounds = 32;
constexpr std::chrono::milliseconds max_pause{1000};

bool is_stream(const lb_track& entry) { return age(entry.seen, entry.opened) > stream_seconds; }

bool is_closing(const lb_track& entry) { return entry.state >= LB_CLOSING; }

bool is_reset(const lb_track& entry) { return entry.state == LB_RESET; }

std::uint32_t half_closed_limit(const ExpiryTerms& terms) {
  const auto& limits = terms.timeouts;
  return terms.fill == TableFill::normal ? limits.close_wait : std::min(limits.close_wait, limits.closing);
}

/// The timeout that ends a flow, and the resulting Ending.
struct Limit {
  std::uint32_t seconds;
  Ending ending;
};

Limit tcp_limit(const ExpiryTerms& terms, const lb_track& entry, const lb_track& other) {
  const bool both = is_closing(entry) && is_closing(other);
  if (both || is_reset(entry) || is_reset(other)) {
    return {terms.timeouts.closing, Ending::closed};
  }
  if (is_closing(entry) || is_closing(other)) {
    return {half_closed_limit(terms), Ending::half_closed};
  }
  return {terms.timeouts.established, Ending::idle};
}

Limit limit_of(const ExpiryTerms& terms, lb_protocol protocol, const lb_track& entry, const lb_track& other) {
  const auto& limits = terms.timeouts;
  switch (protocol) {
    case LB_UDP:
      return {is_stream(entry) || is_stream(other) ? limits.udp_stream : limits.udp, Ending::idle};
    case LB_SCTP:
      if (is_closing(entry) || is_closing(other)) {
        return {limits.closing, Ending::closed};
      }
      return {limits.sctp, Ending::idle};
    case LB_TCP:
    case LB_ANY_PROTOCOL:
      break;
  }
  return tcp_limit(terms, entry, other);
}

/// Whether this round checks the entry. Depends on its key, because positions in the table change.
template <class Key>
bool is_sampled(const Key& key, std::uint32_t round) {
  std::uint64_t word = 0;
  std::memcpy(&word, &key, sizeof(word));
  const std::uint64_t ports = std::uint64_t{key.source_port} << 16U | key.destination_port;
  return (lb_mix(word, ports) + round) % orphan_rounds == 0;
}

/// A lone reply entry may still be used, and keeps its port for a while; packets of a lone forward entry only
/// fail, and the flow starts again once it is erased.
bool is_over_alone(const ExpiryTerms& terms, const lb_track& entry) {
  return entry.direction == LB_FORWARD || age(terms.now, entry.seen) > terms.timeouts.closing;
}

template <class Key>
bool same(const Key& one, const Key& other) {
  return std::memcmp(&one, &other, sizeof(Key)) == 0;
}

/// Reads the flow's other entry. A hash may return another key's value, and a tuple may belong to another
/// flow by now, so the entry is used only if it leads back to `key`.
template <class Table, class Key, class Flow>
auto find_other(const Table& table, const Key& key, const Flow& flow) {
  const Key there = other_key(key, flow);
  auto found = table.get(there);
  return found && same(other_key(there, *found), key) ? std::optional(*found) : std::nullopt;
}

/// The current values of an entry and of its flow's other entry.
template <class Flow>
struct Pair {
  Flow entry;
  std::optional<Flow> other;
};

template <class Table, class Key>
auto read_pair(const Table& table, const Key& key) {
  using Flow = typename decltype(table.get(key))::value_type;
  std::optional<Pair<Flow>> pair;
  if (const auto entry = table.get(key)) {
    pair = Pair<Flow>{*entry, find_other(table, key, *entry)};
  }
  return pair;
}

template <class Flow>
std::optional<Ending> decide(const ExpiryTerms& terms, lb_protocol protocol, const Pair<Flow>& pair) {
  return ending(terms, protocol, pair.entry.track, pair.other ? &pair.other->track : nullptr);
}

/// Erases the forward entry first, so that no request is translated without a reply entry. If the agent dies
/// in between, or an erase fails, the reply entry is an orphan of a later round.
template <class Table, class Key, class Flow>
bool erase_pair(Table& table, const Key& key, const Pair<Flow>& pair) {
  if (!pair.other) {
    return !table.erase(key);
  }
  const Key there = other_key(key, pair.entry);
  const bool is_forward = pair.entry.track.direction == LB_FORWARD;
  return !table.erase(is_forward ? key : there) && !table.erase(is_forward ? there : key);
}

}  // namespace

std::uint32_t age(std::uint32_t now, std::uint32_t then) {
  const std::uint32_t passed = now - then;
  return passed < (1U << 31U) ? passed : 0;
}

bool may_have_ended(const ExpiryTerms& terms, lb_protocol protocol, const lb_track& entry) {
  std::uint32_t seconds = limit_of(terms, protocol, entry, entry).seconds;
  if (protocol == LB_TCP && is_closing(entry)) {
    seconds = std::min(seconds, half_closed_limit(terms));
  }
  return age(terms.now, entry.seen) > seconds;
}

std::optional<Ending> ending(const ExpiryTerms& terms, lb_protocol protocol, const lb_track& entry,
                             const lb_track* other) {
  if (other == nullptr) {
    return is_over_alone(terms, entry) ? std::optional(Ending::orphaned) : std::nullopt;
  }
  const auto limit = limit_of(terms, protocol, entry, *other);
  const auto idle = std::min(age(terms.now, entry.seen), age(terms.now, other->seen));
  return idle > limit.seconds ? std::optional(limit.ending) : std::nullopt;
}

lb_flow4_key other_key(const lb_flow4_key& key, const lb_flow4& flow) {
  lb_flow4_key other{};
  std::ranges::copy(flow.destination.address, std::begin(other.source));
  std::ranges::copy(flow.source.address, std::begin(other.destination));
  other.source_port = flow.destination.port;
  other.destination_port = flow.source.port;
  other.protocol = key.protocol;
  return other;
}

lb_flow6_key other_key(const lb_flow6_key& key, const lb_flow6& flow) {
  lb_flow6_key other{};
  std::ranges::copy(flow.destination, std::begin(other.source));
  std::ranges::copy(flow.source, std::begin(other.destination));
  other.source_port = flow.destination_port;
  other.destination_port = flow.source_port;
  other.protocol = key.protocol;
  other.family = key.family;
  return other;
}

FlowExpiry::FlowExpiry(Flows4& flows4, Flows6& flows6, FlowTimeouts timeouts, Clocks clocks, ExpiryPace pace)
    : flows4_(flows4), flows6_(flows6), timeouts_(timeouts), clocks_(std::move(clocks)), pace_(pace) {}

maps::result<std::chrono::milliseconds> FlowExpiry::step() {
  const auto begin = clocks_.taken();
  const auto error = table_ == 0 ? step_table(flows4_) : step_table(flows6_);
  if (error) {
    cursor_ = {};
    counted_ = 0;
    table_ = 0;
    slept_ = {};
    return error;
  }
  if (cursor_.finished) {
    finish_table();
  }
  return pause(clocks_.taken() - begin);
}

template <class Key, class Flow>
maps::error_code FlowExpiry::step_table(maps::HashMap<Key, Flow>& table) {
  const ExpiryTerms terms{.timeouts = timeouts_, .fill = fullness_.at(table_).fill, .now = clocks_.now()};
  std::vector<Key> candidates;
  const auto error = table.step(cursor_, pace_.step_entries, [&](const Key& key, const Flow& flow) {
    ++counted_;
    if (may_have_ended(terms, key.protocol, flow.track) || is_sampled(key, round_)) {
      candidates.push_back(key);
    }
  });
  for (const Key& key : candidates) {
    end_if_over(table, terms, key);
  }
  return error;
}

/// Entries may have changed since the walk read them, so they are read again. A lone entry counts only if
/// seen twice.
template <class Table, class Key>
void FlowExpiry::end_if_over(Table& table, const ExpiryTerms& terms, const Key& key) {
  auto pair = read_pair(table, key);
  if (pair && !pair->other) {
    pair = read_pair(table, key);
  }
  if (!pair) {
    return;
  }
  const auto why = decide(terms, key.protocol, *pair);
  if (why && erase_pair(table, key, *pair)) {
    ++ended_.at(static_cast<std::size_t>(*why));
  }
}

void FlowExpiry::finish_table() {
  const std::uint64_t limit = table_ == 0 ? flows4_.limit() : flows6_.limit();
  fullness_.at(table_) = {.entries = counted_,
                          .fill = counted_ * 10 >= limit * 9 ? TableFill::nearly_full : TableFill::normal};
  cursor_ = {};
  counted_ = 0;
  ++table_;
}

/// Steps are evenly spaced for full tables, so that the cost of a round does not depend on estimates; with
/// emptier tables the rest of a round's time is one long pause.
std::chrono::milliseconds FlowExpiry::pause(std::chrono::nanoseconds taken) {
  const auto& [round, min_pause, rest] = pacing();
  const std::chrono::milliseconds round_time = round;
  const auto limits = std::uint64_t{flows4_.limit()} + flows6_.limit();
  const auto even = std::chrono::milliseconds(static_cast<std::uint64_t>(round_time.count()) *
                                              pace_.step_entries / std::max<std::uint64_t>(limits, 1));
  const auto step_pause = std::max(std::clamp(even, min_pause, max_pause),
                                   std::chrono::ceil<std::chrono::milliseconds>(taken * rest));
  if (table_ < fullness_.size()) {
    slept_ += step_pause;
    return step_pause;
  }
  table_ = 0;
  ++round_;
  return std::max(round_time - std::exchange(slept_, {}), step_pause);
}

const Pacing& FlowExpiry::pacing() const {
  const bool urgent = std::ranges::any_of(
      fullness_, [](const Fullness& fullness) { return fullness.fill == TableFill::nearly_full; });
  return urgent ? pace_.urgent : pace_.even;
}

}  // namespace lb::agent
