// SPDX-License-Identifier: Apache-2.0
// SIGTERM and SIGINT end the process in a fifth of a second, whatever it is doing: a separate thread waits
// for them, so a handler that takes long, or never returns, does not delay the end. Pinned maps are
// consistent at any instruction.
#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <mutex>
#include <thread>

#include "maps/map.hpp"

namespace lb::agent {

class EndSignals {
 public:
  /// Time for the agent to end by itself.
  static constexpr std::chrono::milliseconds grace{150};

  /// Create it before all other threads, which inherit the blocked signals.
  EndSignals();
  /// Stops the thread; the process continues and ends by itself.
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  /// Sets the callback for a signal: called with its number in the waiting thread, it must return at once.
  /// May be null.
  void on_signal(std::function<void(int)> notify);

 private:
  void wait();
  void pass_on(int signal);

  sigset_t before_{};
  maps::Fd signals_;
  maps::Fd done_;
  std::mutex mutex_;
  std::function<void(int)> notify_;  ///< protected by mutex_
  std::thread thread_;
};

}  // namespace lb::agent
