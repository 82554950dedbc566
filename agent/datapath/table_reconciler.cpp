// SPDX-License-Identifier: Apache-2.0
// Retries and repairs, by two timers.
#include "agent/datapath/table_reconciler.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdint>
#include <utility>

#include "agent/base/repeat.hpp"

namespace lb::agent {
namespace {

/// Time between two checks of the tables.
constexpr std::chrono::hours repair_pause{1};

/// Thresholds in eighths; two of them, so that a table near one is not reported repeatedly.
constexpr std::uint64_t nearly_full = 7;
constexpr std::uint64_t room_again = 6;

}  // namespace

TableReconciler::TableReconciler(boost::asio::io_context& context, Tables& tables, Metrics& metrics,
                                 Growth growth, std::function<void()> retried)
    : retry_timer_(context),
      repair_timer_(context),
      tables_(tables),
      metrics_(metrics),
      growth_(growth),
      retried_(std::move(retried)) {}

void TableReconciler::retry_later() {
  const auto pause = tables_.retry_in();
  // An earlier one, if a Service has left room meanwhile.
  const bool is_soon =
      retry_waits_ && pause && retry_timer_.expiry() <= std::chrono::steady_clock::now() + *pause;
  if (!pause || is_soon) {
    return;
  }
  retry_waits_ = true;
  retry_timer_.expires_after(*pause);
  retry_timer_.async_wait([this](const auto& error) {
    if (error) {
      return;
    }
    retry_waits_ = false;
    if (!tables_.complete()) {
      metrics_.retried();
    }
    tables_.retry();
    retried_();
    retry_later();
  });
}

void TableReconciler::report_fullness() {
  const auto* const then =
      growth_ == Growth::off ? "what does not fit keeps what it had" : "a larger one is made";
  for (const auto& fill : tables_.fills()) {
    if (fill.used * 8 >= fill.limit * nearly_full) {
      if (nearly_full_.insert(fill.map).second) {
        spdlog::warn("{} is nearly full: {} of {} entries; when it is full, {}", fill.map, fill.used,
                     fill.limit, then);
      }
    } else if (fill.used * 8 < fill.limit * room_again && nearly_full_.erase(fill.map) > 0) {
      spdlog::info("{} has room again: {} of {} entries", fill.map, fill.used, fill.limit);
    }
  }
}

/// The kernel sends no notifications of other processes' writes to the tables.
void TableReconciler::repair() {
  for (const auto& each : tables_.repair()) {
    metrics_.repaired(each.table, each.entries);
    if (each.left > 0) {
      spdlog::error(
          "{} entries of {} that were changed from outside are not repaired: {}; the next check tries again",
          each.left, each.table, each.failure.message());
    } else if (each.failure) {
      spdlog::error("cannot check {}: {}", each.table, each.failure.message());
    }
    if (each.entries > 0) {
      spdlog::warn("repaired {} entries of {} that were changed from outside", each.entries, each.table);
    }
  }
  spdlog::debug("checked the tables");
}

void TableReconciler::repair_later() {
  repeat(repair_timer_, repair_pause, [this] { repair(); });
}

}  // namespace lb::agent
