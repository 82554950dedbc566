// SPDX-License-Identifier: Apache-2.0
#include "agent/datapath/map_resizer.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

namespace lb::agent {
namespace {

/// Maximum delay: all nodes' tables are full at the same time, and a new agent lists everything from the API.
constexpr std::chrono::milliseconds spread{30'000};

/// Maximum time between two checks of the slots.
constexpr std::chrono::milliseconds max_interval{30'000};

}  // namespace

MapResizer::MapResizer(boost::asio::io_context& context, const ResizeLimits& limits, Tables& tables,
                       const Datapath& datapath, const Health& health,
                       std::function<void(const Sizes&)> begin_again)
    : timer_(context),
      slots_timer_(context),
      options_(limits.options),
      min_slots_(limits.min_slots),
      tables_(tables),
      datapath_(datapath),
      health_(health),
      begin_again_(std::move(begin_again)) {}

void MapResizer::make() {
  if (options_.growth == Growth::off || found_ || waits_ || !tables_.larger()) {
    return;
  }
  const bool all_nodes_grow = options_.manifests.empty() && health_.ready();
  waits_ = true;
  timer_.expires_after(
      std::chrono::milliseconds(all_nodes_grow ? std::random_device()() % spread.count() : 0));
  timer_.async_wait([this](const auto& error) {
    waits_ = false;
    if (!error) {
      grow();
    }
  });
}

void MapResizer::grow() {
  auto sizes = tables_.larger();
  if (!sizes) {
    return;
  }
  sizes->flows = options_.sizes.flows;
  sizes->unassured = options_.sizes.unassured;
  sizes->consistent_slots = options_.sizes.consistent_slots;
  if (const auto lack = datapath_.memory_shortage(*sizes)) {
    if (std::exchange(lack_, *lack) != *lack) {
      spdlog::error("tables are too small and cannot be made larger: {}", *lack);
    }
    return;
  }
  found_ = true;
  begin_again_(*sizes);
}

void MapResizer::watch_slots() {
  if (options_.growth == Growth::off || options_.shrink_after == 0 || found_) {
    return;
  }
  slots_timer_.expires_after(std::min<std::chrono::milliseconds>(shrink_after() / 4, max_interval));
  slots_timer_.async_wait([this](const auto& error) {
    if (!error) {
      check_slots(std::chrono::steady_clock::now());
      watch_slots();
    }
  });
}

void MapResizer::check_slots(std::chrono::steady_clock::time_point now) {
  const auto sizes = tables_.smaller(min_slots_);
  if (!sizes) {
    free_since_.reset();
    return;
  }
  free_since_ = free_since_.value_or(now);
  if (now - *free_since_ >= shrink_after() && tables_.lower_slots(sizes->slots / 2)) {
    shrink();
  }
}

/// The slots in use are in the first half of the next agent's table.
void MapResizer::shrink() {
  auto sizes = tables_.smaller(min_slots_);
  if (!sizes) {
    return;
  }
  sizes->flows = options_.sizes.flows;
  sizes->unassured = options_.sizes.unassured;
  sizes->consistent_slots = options_.sizes.consistent_slots;
  found_ = true;
  begin_again_(*sizes);
}

}  // namespace lb::agent
