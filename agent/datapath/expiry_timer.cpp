// SPDX-License-Identifier: Apache-2.0
// The timer for the steps of the expiry, its counters and its warnings.
#include "agent/datapath/expiry_timer.hpp"

#include <spdlog/spdlog.h>

#include <chrono>

#include "agent/base/clock.hpp"

namespace lb::agent {

namespace {

constexpr std::chrono::seconds pause_after_error{60};
constexpr std::array<const char*, 2> table_names = {"lb_flows4", "lb_flows6"};

}  // namespace

ExpiryTimer::ExpiryTimer(boost::asio::io_context& context, maps::MapSet& maps, const FlowTimeouts& timeouts,
                         std::uint32_t hertz, Metrics& metrics)
    : timer_(context),
      maps_(maps),
      metrics_(metrics),
      expiry_(maps.flows4, maps.flows6, timeouts, {.now = [hertz] { return flow_clock_now(hertz); }}) {}

void ExpiryTimer::start() {
  for (const auto& [why, name] : endings) {
    metrics_.flows_ended(name, 0);  // creates the counter with value 0
  }
  step();
}

void ExpiryTimer::step() {
  const auto pause = expiry_.step();
  count();
  report_fullness();
  const auto error = pause ? maps::error_code{} : pause.error();
  if (error && error != failure_) {
    spdlog::error("cannot walk the flow tables, so flows do not expire: {}; trying again every minute",
                  error.message());
  }
  failure_ = error;
  timer_.expires_after(pause ? *pause : std::chrono::milliseconds(pause_after_error));
  timer_.async_wait([this](const auto& stopped) {
    if (!stopped) {
      step();
    }
  });
}

void ExpiryTimer::count() {
  for (const auto& [why, name] : endings) {
    const auto at = static_cast<std::size_t>(why);
    const auto more = expiry_.ended().at(at) - counted_.at(at);
    if (more > 0) {
      metrics_.flows_ended(name, more);
    }
  }
  counted_ = expiry_.ended();
}

/// Logs once when a table gets nearly full, and once when it no longer is.
void ExpiryTimer::report_fullness() {
  for (std::size_t table = 0; table < fullness_.size(); ++table) {
    const auto& [entries, fill] = expiry_.fullness().at(table);
    if (fill == fullness_.at(table)) {
      continue;
    }
    fullness_.at(table) = fill;
    const auto limit = table == 0 ? maps_.flows4.limit() : maps_.flows6.limit();
    if (fill == TableFill::nearly_full) {
      spdlog::warn(
          "{} is nearly full: {} of {} entries; when it is full, new flows stay unassured and "
          "give way to newer ones; --max-flows sets its size when the maps are made",
          table_names.at(table), entries, limit);
    } else {
      spdlog::info("{} has room again: {} of {} entries", table_names.at(table), entries, limit);
    }
  }
}

}  // namespace lb::agent
