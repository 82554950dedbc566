// SPDX-License-Identifier: Apache-2.0
// Flows in real tables, written as the programs write them: two entries that refer to each other. For tests
// and benches.
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "agent/tables/expiry.hpp"
#include "tests/prog/lib/real_maps.hpp"

namespace lb::expiry_test {

using agent::FlowExpiry;

/// The state of one entry of a flow.
struct EntryState {
  lb_state state = LB_OPEN;
  std::uint32_t seen = 0;  ///< time of the last packet, in seconds of lb_clock
};

/// Which of a flow's entries are written.
enum class Entries : std::uint8_t { both, forward, reply };

inline lb_track track(const EntryState& entry, lb_direction direction) {
  lb_track track{};
  track.state = entry.state;
  track.seen = entry.seen;
  track.opened = entry.seen - 100;
  track.direction = direction;
  return track;
}

/// The key of flow `number`; the translated source differs in each flow, as with source NAT.
inline lb_flow4_key key4(std::uint32_t number, lb_protocol protocol) {
  lb_flow4_key key{{10, 0, 0, 0}, {203, 0, 113, 80}, 0, 80, protocol, {}};
  std::memcpy(key.source, &number, sizeof(number));
  key.source_port = 40000;
  return key;
}

inline lb_flow4 flow4(std::uint32_t number) {
  lb_flow4 flow{};
  flow.source.address[0] = 192;
  std::memcpy(flow.destination.address, &number, sizeof(number));
  flow.source.port = 2000;
  flow.destination.port = 8080;
  return flow;
}

inline lb_flow4 back4(const lb_flow4_key& key) {
  lb_flow4 flow{};
  std::memcpy(flow.source.address, key.destination, sizeof(key.destination));
  std::memcpy(flow.destination.address, key.source, sizeof(key.source));
  flow.source.port = key.destination_port;
  flow.destination.port = key.source_port;
  return flow;
}

inline lb_flow6_key key6(std::uint32_t number, lb_protocol protocol) {
  lb_flow6_key key{};
  std::memcpy(key.source + 12, &number, sizeof(number));
  key.source_port = 40000;
  key.destination_port = 80;
  key.protocol = protocol;
  key.family = LB_IPV6;
  return key;
}

inline lb_flow6 flow6(std::uint32_t number) {
  lb_flow6 flow{};
  std::memcpy(flow.destination + 8, &number, sizeof(number));
  flow.source_port = 2000;
  flow.destination_port = 8080;
  return flow;
}

inline lb_flow6 back6(const lb_flow6_key& key) {
  lb_flow6 flow{};
  std::memcpy(flow.source, key.destination, sizeof(key.destination));
  std::memcpy(flow.destination, key.source, sizeof(key.source));
  flow.source_port = key.destination_port;
  flow.destination_port = key.source_port;
  return flow;
}

/// The two flow tables and the expiry that walks them; `clock` is lb_clock. A step takes no time unless
/// `taken` says so.
struct FlowLab {
  explicit FlowLab(
      std::uint32_t limit, agent::ExpiryPace pace = {},
      std::function<std::chrono::nanoseconds()> taken = [] { return std::chrono::nanoseconds(0); })
      : flows4(tables_test::make_hash<lb_flow4_key, lb_flow4>("lb_flows4", limit)),
        flows6(tables_test::make_hash<lb_flow6_key, lb_flow6>("lb_flows6", limit)),
        expiry(flows4, flows6, {}, {.now = [this] { return clock; }, .taken = std::move(taken)}, pace) {}

  void add4(std::uint32_t number, lb_protocol protocol, EntryState forward, EntryState reply,
            Entries entries = Entries::both) {
    const auto key = key4(number, protocol);
    add(flows4, key, flow4(number), back4(key), {forward, reply}, entries);
  }
  void add6(std::uint32_t number, lb_protocol protocol, EntryState forward, EntryState reply,
            Entries entries = Entries::both) {
    const auto key = key6(number, protocol);
    add(flows6, key, flow6(number), back6(key), {forward, reply}, entries);
  }

  /// Runs steps until `rounds` more rounds are complete; returns the number of steps.
  std::uint32_t walk(std::uint32_t rounds = 1) {
    std::uint32_t steps = 0;
    for (const auto last = expiry.rounds() + rounds; expiry.rounds() != last; ++steps) {
      if (const auto pause = expiry.step(); !pause) {
        throw std::runtime_error(pause.error().message());
      }
    }
    return steps;
  }

  std::uint32_t clock = 1000000;
  FlowExpiry::Flows4 flows4;
  FlowExpiry::Flows6 flows6;
  FlowExpiry expiry;

 private:
  template <class Table, class Key, class Flow>
  static void add(Table& table, const Key& key, Flow forward, Flow back, std::pair<EntryState, EntryState> is,
                  Entries entries) {
    forward.track = track(is.first, LB_FORWARD);
    back.track = track(is.second, LB_REPLY);
    if (entries != Entries::forward) {
      put(table, agent::other_key(key, forward), back);
    }
    if (entries != Entries::reply) {
      put(table, key, forward);
    }
  }
  template <class Table, class Key, class Flow>
  static void put(Table& table, const Key& key, const Flow& flow) {
    if (const auto error = table.put(key, flow, maps::Put::create)) {
      throw std::runtime_error("cannot write a flow: " + error.message());
    }
  }
};

}  // namespace lb::expiry_test
