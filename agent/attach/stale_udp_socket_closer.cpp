// SPDX-License-Identifier: Apache-2.0
// The timer, the thread, and its way back to the agent's thread.
#include "agent/attach/stale_udp_socket_closer.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <csignal>
#include <exception>
#include <system_error>
#include <utility>

namespace lb::agent {
namespace {

// Delay between a backend's end and the round, which collects further ends.
constexpr std::chrono::milliseconds pause{100};

/// Signals are for the agent's own thread.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

UdpRound run(const StaleUdpSockets& sockets, const std::stop_token& stop) {
  UdpRound round;
  try {
    round = sockets.run(stop);
  } catch (const std::exception& error) {
    round.problem = error.what();
  }
  return round;
}

}  // namespace

StaleUdpSocketCloser::StaleUdpSocketCloser(boost::asio::io_context& context, const UdpCleanup& cleanup,
                                           Namespaces namespaces, Report reported)
    : context_(context), timer_(context), sockets_(cleanup, namespaces), report_(std::move(reported)) {}

void StaleUdpSocketCloser::check_soon() {
  if (!sockets_ || phase_ == Phase::waiting) {
    return;
  }
  if (phase_ == Phase::running) {
    again_ = true;
    return;
  }
  phase_ = Phase::waiting;
  timer_.expires_after(pause);
  timer_.async_wait([this](const auto& error) {
    if (!error) {
      start_round();
    }
  });
}

// The result arrives after this object's end if that waited for the thread.
void StaleUdpSocketCloser::start_round() {
  phase_ = Phase::running;
  auto work = boost::asio::make_work_guard(context_);
  std::weak_ptr<StaleUdpSocketCloser*> self = self_;
  try {
    thread_ = std::jthread(
        [&sockets = sockets_, work = std::move(work), self = std::move(self)](const std::stop_token& stop) {
          block_signals();
          const auto round = run(sockets, stop);
          boost::asio::post(work.get_executor(), [self, round] {
            if (const auto alive = self.lock()) {
              (*alive)->finish_round(round);
            }
          });
        });
  } catch (const std::system_error& error) {
    UdpRound none;
    none.problem = error.what();
    finish_round(none);
  }
}

void StaleUdpSocketCloser::finish_round(const UdpRound& round) {
  phase_ = Phase::idle;
  report_(round);
  if (std::exchange(again_, false)) {
    check_soon();
  }
}

}  // namespace lb::agent
