// SPDX-License-Identifier: Apache-2.0
// Which CPU a test runs on: two threads on two CPUs for races, or one CPU for what programs count per CPU.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

namespace lb::test {

inline void stay_on(unsigned processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor % std::max(1U, std::thread::hardware_concurrency()), &set);
  static_cast<void>(::sched_setaffinity(0, sizeof(set), &set));
}

inline void go_anywhere() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (unsigned at = 0; at < std::thread::hardware_concurrency(); ++at) {
    CPU_SET(at, &all);
  }
  static_cast<void>(::sched_setaffinity(0, sizeof(all), &all));
}

/// Keeps the calling thread on the CPU that it runs on, for its lifetime.
class OnOneCpu {
 public:
  OnOneCpu() {
    static_cast<void>(::sched_getaffinity(0, sizeof(before_), &before_));
    stay_on(static_cast<unsigned>(std::max(0, ::sched_getcpu())));
  }
  OnOneCpu(const OnOneCpu&) = delete;
  OnOneCpu& operator=(const OnOneCpu&) = delete;
  ~OnOneCpu() { static_cast<void>(::sched_setaffinity(0, sizeof(before_), &before_)); }

 private:
  cpu_set_t before_{};
};

/// Runs `disturb(round)` repeatedly on the other processor, while `work()` runs on this one.
template <class Work, class Disturb>
void meanwhile(Work work, Disturb disturb) {
  std::atomic<bool> stop = false;
  std::exception_ptr failure;
  std::thread other([&] {
    try {
      stay_on(1);
      for (std::uint32_t round = 0; !stop; ++round) {
        disturb(round);
      }
    } catch (...) {
      failure = std::current_exception();
    }
  });
  stay_on(0);
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  stop = true;
  other.join();
  go_anywhere();
  if (failure) {
    std::rethrow_exception(failure);
  }
}

/// Runs two jobs that begin at the same moment, each on its own processor, repeatedly.
class TwoCores {
 public:
  TwoCores() : other_([this] { serve(); }) { stay_on(0); }
  TwoCores(const TwoCores&) = delete;
  TwoCores& operator=(const TwoCores&) = delete;
  ~TwoCores() {
    stop_ = true;
    go_ = go_ + 1;
    other_.join();
    go_anywhere();
  }

  void run(const std::function<void()>& mine, std::function<void()> theirs) {
    job_ = std::move(theirs);
    ready_ = done_ = false;
    go_ = go_ + 1;
    while (!ready_) {
      std::this_thread::yield();
    }
    start_ = go_.load();
    mine();
    while (!done_) {
      std::this_thread::yield();
    }
    if (failure_) {
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
  }

 private:
  void serve() {
    stay_on(1);
    for (std::uint32_t round = 1;; ++round) {
      while (go_ != round) {
        std::this_thread::yield();
      }
      if (stop_) {
        return;
      }
      ready_ = true;
      while (start_ != round) {
      }
      try {
        job_();
      } catch (...) {
        failure_ = std::current_exception();
      }
      done_ = true;
    }
  }

  std::atomic<std::uint32_t> go_ = 0, start_ = 0;
  std::atomic<bool> ready_ = false, done_ = false, stop_ = false;
  std::function<void()> job_;
  std::exception_ptr failure_;
  std::thread other_;
};

}  // namespace lb::test
