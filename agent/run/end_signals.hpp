// SIGTERM and SIGINT end the process in a fifth of a second, whatever it is doing: a separate thread waits
// for them, so a handler that takes long, or never returns, does not delay the end. What is pinned is
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
  /// How long the agent has to end by itself.
  static constexpr std::chrono::milliseconds grace{150};

  /// To be made before all other threads, which inherit that they do not get these signals.
  EndSignals();
  /// The process goes on to end by itself.
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  /// `notify` is called with the signal's number in the waiting thread, and must return at once. Null: none
  /// is called.
  void on_signal(std::function<void(int)> notify);

 private:
  void wait();
  void pass_on(int signal);

  sigset_t before_{};
  maps::Fd signals_;
  maps::Fd done_;
  std::mutex mutex_;
  std::function<void(int)> notify_;  ///< under the lock
  std::thread thread_;
};

}  // namespace lb::agent
