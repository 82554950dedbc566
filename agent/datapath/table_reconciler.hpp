// SPDX-License-Identifier: Apache-2.0
// Keeps the tables as planned: retries failed writes, and repairs entries that others changed.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <set>
#include <string_view>

#include "agent/observe/metrics.hpp"
#include "agent/options/config.hpp"
#include "agent/tables/tables.hpp"

namespace lb::agent {

class TableReconciler {
 public:
  /// All referenced objects must outlive this. `retried` is called after each retry; `growth`: whether full
  /// tables are enlarged.
  TableReconciler(boost::asio::io_context& context, Tables& tables, Metrics& metrics, Growth growth,
                  std::function<void()> retried);

  /// Schedules a retry of failed writes, if there are any. A scheduled retry is not postponed by later
  /// failures.
  void retry_later();

  /// Logs once when a table gets nearly full, and once when it no longer is.
  void report_fullness();

  /// Checks now whether the tables have their written values (SEM-70).
  void repair();
  /// Repeats the check periodically from now on.
  void repair_later();

 private:
  boost::asio::steady_timer retry_timer_;
  boost::asio::steady_timer repair_timer_;
  Tables& tables_;
  Metrics& metrics_;
  Growth growth_;
  std::function<void()> retried_;
  bool retry_waits_ = false;
  std::set<std::string_view> nearly_full_;  ///< last logged tables
};

}  // namespace lb::agent
