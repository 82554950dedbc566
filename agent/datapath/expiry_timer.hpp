// SPDX-License-Identifier: Apache-2.0
// Runs the expiry of flows in steps between the agent's other work, and reports its results.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>

#include "agent/observe/metrics.hpp"
#include "agent/tables/expiry.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

class ExpiryTimer {
 public:
  /// `hertz` is the kernel's tick rate (lb_node). The references must outlive this.
  ExpiryTimer(boost::asio::io_context& context, maps::MapSet& maps, const FlowTimeouts& timeouts,
              std::uint32_t hertz, Metrics& metrics);

  /// Starts the steps, which continue until the context ends.
  void start();

 private:
  void step();
  void count();
  void report_fullness();

  boost::asio::steady_timer timer_;
  maps::MapSet& maps_;
  Metrics& metrics_;
  FlowExpiry expiry_;
  std::array<std::uint64_t, endings.size()> counted_{};  ///< last reported to the metrics
  std::array<TableFill, 2> fullness_{};                  ///< last logged, by table
  maps::error_code failure_;                             ///< last logged error
};

}  // namespace lb::agent
