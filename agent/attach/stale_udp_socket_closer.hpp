// SPDX-License-Identifier: Apache-2.0
// Runs rounds that end connected UDP sockets whose backend no longer serves, each in a thread of its own: a
// round takes as long as there are sockets (SEM-46, REL-161).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "agent/attach/stale_udp_sockets.hpp"

namespace lb::agent {

class StaleUdpSocketCloser {
 public:
  /// Called after each round, on the agent's thread.
  using Report = std::function<void(const UdpRound& round)>;

  /// If this kernel cannot end sockets by `cleanup`, it does nothing.
  StaleUdpSocketCloser(boost::asio::io_context& context, const UdpCleanup& cleanup, Namespaces namespaces,
                       Report reported);
  StaleUdpSocketCloser(const StaleUdpSocketCloser&) = delete;
  StaleUdpSocketCloser& operator=(const StaleUdpSocketCloser&) = delete;
  /// Waits until a round stops.
  ~StaleUdpSocketCloser() = default;

  /// Checks all connected UDP sockets soon: their backend may have ended, or be another one now. If a round
  /// is under way, another one follows.
  void check_soon();

 private:
  void start_round();
  void finish_round(const UdpRound& round);

  boost::asio::io_context& context_;
  boost::asio::steady_timer timer_;
  StaleUdpSockets sockets_;
  Report report_;
  enum class Phase : std::uint8_t { idle, waiting, running };
  Phase phase_ = Phase::idle;
  bool again_ = false;
  std::shared_ptr<StaleUdpSocketCloser*> self_ = std::make_shared<StaleUdpSocketCloser*>(this);
  std::jthread thread_;  ///< last: it uses the others
};

}  // namespace lb::agent
