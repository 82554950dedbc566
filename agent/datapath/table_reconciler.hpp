// Keeps the tables as planned: retries failed writes, and repairs what others changed.
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
  /// What is referred to must outlive this. `retried` is called after each retry; `growth`: what becomes of a
  /// table that is full.
  TableReconciler(boost::asio::io_context& context, Tables& tables, Metrics& metrics, Growth growth,
                  std::function<void()> retried);

  /// Tries again in time what has failed, if anything has. A retry that is under way is not put off by what
  /// comes meanwhile.
  void retry_later();

  /// Says of each table once that it is nearly full, and once that this is over.
  void report_fullness();

  /// Looks now whether the tables are as they were written (SEM-70).
  void repair();
  /// The same every so often from now on.
  void repair_later();

 private:
  boost::asio::steady_timer retry_timer_;
  boost::asio::steady_timer repair_timer_;
  Tables& tables_;
  Metrics& metrics_;
  Growth growth_;
  std::function<void()> retried_;
  bool retry_waits_ = false;
  std::set<std::string_view> nearly_full_;  ///< as last logged
};

}  // namespace lb::agent
