// The care of what is written: what failed is tried again, and what others changed is put right.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>

#include "agent/metrics.hpp"
#include "agent/tables.hpp"

namespace lb::agent {

class TableCare {
 public:
  /// What is referred to must outlive this. `retried` is called after each retry.
  TableCare(boost::asio::io_context& context, Tables& tables, Metrics& metrics,
            std::function<void()> retried);

  /// Tries again in time what has failed, if anything has. A retry that is under way is not put off by what
  /// comes meanwhile.
  void retry_later();

  /// Looks now whether the tables are as they were written (SEM-70).
  void repair();
  /// The same every so often from now on.
  void repair_later();

 private:
  boost::asio::steady_timer retry_timer_;
  boost::asio::steady_timer repair_timer_;
  Tables& tables_;
  Metrics& metrics_;
  std::function<void()> retried_;
  bool retry_waits_ = false;
};

}  // namespace lb::agent
