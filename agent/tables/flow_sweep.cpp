// SPDX-License-Identifier: Apache-2.0
// Visits the unassured tables first: a flow moves from there to the assured ones, never back.
#include "agent/tables/flow_sweep.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "agent/tables/expiry.hpp"
#include "k8s/objects/raw_address.hpp"

namespace lb::agent {
namespace {

constexpr std::uint32_t step_entries = 512;
constexpr std::chrono::milliseconds between_steps{2};
constexpr std::size_t tables = 4;

SweptEntry entry_of(const lb_flow4_key& key, const lb_flow4& flow) {
  return {k8s::address_of(key.destination), k8s::address_of(flow.source.address),
          k8s::address_of(flow.destination.address), flow.track};
}

SweptEntry entry_of(const lb_flow6_key& key, const lb_flow6& flow) {
  return {k8s::address_of(key.destination), k8s::address_of(flow.source), k8s::address_of(flow.destination),
          flow.track};
}

}  // namespace

FlowSweep::FlowSweep(boost::asio::io_context& context, maps::MapSet& maps, Ended ended, std::string risk)
    : timer_(context), maps_(maps), ended_(std::move(ended)), risk_(std::move(risk)) {}

void FlowSweep::start(Ends ends) {
  stop();
  ends_ = std::move(ends);
  table_ = erased_ = 0;
  cursor_ = {};
  pause();
}

void FlowSweep::stop() { timer_.cancel(); }

void FlowSweep::pause() {
  timer_.expires_after(between_steps);
  timer_.async_wait([this](const auto& stopped) {
    if (!stopped) {
      step();
    }
  });
}

maps::error_code FlowSweep::step_tables() {
  switch (table_) {
    case 0:
      return step_table(maps_.unassured4);
    case 1:
      return step_table(maps_.unassured6);
    case 2:
      return step_table(maps_.flows4);
    default:
      return step_table(maps_.flows6);
  }
}

void FlowSweep::step() {
  if (const auto error = step_tables()) {
    return spdlog::error("cannot walk the flow tables ({}): {}", error.message(), risk_);
  }
  if (cursor_.finished) {
    cursor_ = {};
    ++table_;
  }
  if (table_ < tables) {
    pause();
  } else {
    ended_(erased_);
  }
}

/// Erases forward entries first, as in expiry, so that no request is translated without a reply entry.
template <class Key, class Flow>
maps::error_code FlowSweep::step_table(maps::HashMap<Key, Flow>& table) {
  std::vector<Key> gone;
  const auto error = table.step(cursor_, step_entries, [&](const Key& key, const Flow& flow) {
    if (ends_(entry_of(key, flow))) {
      const bool is_request = flow.track.direction == LB_FORWARD;
      gone.push_back(is_request ? key : other_key(key, flow));
      gone.push_back(is_request ? other_key(key, flow) : key);
    }
  });
  for (const auto& key : gone) {
    erased_ += table.erase(key) ? 0 : 1;
  }
  return error;
}

}  // namespace lb::agent
