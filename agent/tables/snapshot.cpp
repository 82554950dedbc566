// SPDX-License-Identifier: Apache-2.0
// Counts the contents of the maps.
#include "agent/tables/snapshot.hpp"

#include <utility>

namespace lb::agent {
namespace {

using maps::error_code;
using maps::MapSet;
using maps::result;

constexpr std::size_t flow_tables = 5;

template <class Table>
result<Fill> count(std::string_view name, const Table& table) {
  Fill fill{name, 0, table.limit()};
  if (auto error = table.for_each([&fill](const auto&, const auto&) { ++fill.used; })) {
    return error;
  }
  return fill;
}

/// Appends a count to the list, or keeps the first error.
void take(result<Fill> fill, std::vector<Fill>& fills, error_code& error) {
  if (fill) {
    fills.push_back(*fill);
  } else if (!error) {
    error = fill.error();
  }
}

Fill count_slots(const MapSet& maps) {
  Fill fill{"lb_slots", 0, maps.slots.size()};
  for (std::uint32_t number = 1; number < maps.services.size(); ++number) {
    const auto service = maps.services.load(number);
    fill.used += std::uint64_t{service.cluster.count} + service.local.count;
  }
  return fill;
}

/// Retired ids are in no set and are not served.
Fill count_backends(const MapSet& maps) {
  Fill fill{"lb_backends", 0, maps.backends.size() - 1U, 0};  // id 0 is never used
  for (std::uint32_t id = 1; id < maps.backends.size(); ++id) {
    const auto backend = maps.backends.load(id);
    if (backend.service != 0) {
      ++fill.used;
      *fill.retired += is_retired(backend) ? 1U : 0U;
    }
  }
  return fill;
}

/// Counts service numbers, each of which has one name.
result<Fill> count_services(const MapSet& maps) {
  Fill fill{"lb_services", 0, maps.services.size() - 1U, 0};
  const auto error = maps.names.for_each([&fill](const auto&, const lb_name& name) {
    ++fill.used;
    *fill.retired += name.retired == LB_YES ? 1U : 0U;
  });
  if (error) {
    return error;
  }
  return fill;
}

std::vector<Fill> empty_flow_fills(const MapSet& maps) {
  return {{"lb_flows4", 0, maps.flows4.limit()},
          {"lb_flows6", 0, maps.flows6.limit()},
          {"lb_unassured4", 0, maps.unassured4.limit()},
          {"lb_unassured6", 0, maps.unassured6.limit()},
          {"lb_affinity", 0, maps.affinity.limit()}};
}

}  // namespace

bool is_retired(const lb_backend& backend) {
  return backend.in_cluster == LB_NO && backend.in_local == LB_NO && backend.serving == LB_NO;
}

result<std::vector<Fill>> table_fills(const MapSet& maps) {
  std::vector<Fill> fills;
  error_code error;
  take(count("lb_frontends", maps.frontends), fills, error);
  take(count("lb_addresses", maps.addresses), fills, error);
  take(count_services(maps), fills, error);
  take(count("lb_ranges", maps.ranges), fills, error);
  if (error) {
    return error;
  }
  fills.push_back(count_slots(maps));
  fills.push_back(count_backends(maps));
  return fills;
}

result<std::vector<Fill>> flow_fills(const MapSet& maps) {
  std::vector<Fill> fills;
  error_code error;
  take(count("lb_flows4", maps.flows4), fills, error);
  take(count("lb_flows6", maps.flows6), fills, error);
  take(count("lb_unassured4", maps.unassured4), fills, error);
  take(count("lb_unassured6", maps.unassured6), fills, error);
  take(count("lb_affinity", maps.affinity), fills, error);
  if (error) {
    return error;
  }
  return fills;
}

FlowCounter::FlowCounter(const MapSet& maps, maps::Post post, std::uint32_t step_entries)
    : maps_(maps), post_(std::move(post)), step_entries_(step_entries), last_(empty_flow_fills(maps)) {}

void FlowCounter::refresh() {
  if (!counting_.empty()) {
    return;
  }
  counting_ = empty_flow_fills(maps_);
  table_ = 0;
  cursor_ = {};
  post_([this] { step(); });
}

error_code FlowCounter::step_table() {
  const auto visit = [this](const auto&, const auto&) { ++counting_[table_].used; };
  switch (table_) {
    case 0:
      return maps_.flows4.step(cursor_, step_entries_, visit);
    case 1:
      return maps_.flows6.step(cursor_, step_entries_, visit);
    case 2:
      return maps_.unassured4.step(cursor_, step_entries_, visit);
    case 3:
      return maps_.unassured6.step(cursor_, step_entries_, visit);
    default:
      return maps_.affinity.step(cursor_, step_entries_, visit);
  }
}

void FlowCounter::step() {
  if (step_table()) {
    counting_.clear();  // last_ keeps the previous counts
    return;
  }
  if (cursor_.finished) {
    ++table_;
    cursor_ = {};
  }
  if (table_ == flow_tables) {
    last_ = std::exchange(counting_, {});
    counted_ = std::chrono::steady_clock::now();
    return;
  }
  post_([this] { step(); });
}

}  // namespace lb::agent
