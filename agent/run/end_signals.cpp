// SPDX-License-Identifier: Apache-2.0
// Uses a signalfd, an eventfd and a thread that polls them.
#include "agent/run/end_signals.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <utility>

namespace lb::agent {
namespace {

sigset_t end_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

/// A shell's background command ignores SIGINT, and an ignored signal is never pending.
void stop_ignoring() {
  for (const int signal : {SIGTERM, SIGINT}) {
    struct sigaction action{};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace

EndSignals::EndSignals() {
  const auto set = end_signals();
  stop_ignoring();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  signals_ = maps::Fd(::signalfd(-1, &set, SFD_CLOEXEC));
  done_ = maps::Fd(::eventfd(0, EFD_CLOEXEC));
  thread_ = std::thread([this] { wait(); });
}

EndSignals::~EndSignals() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(done_.get(), &one, sizeof(one)));
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void EndSignals::on_signal(std::function<void(int)> notify) {
  const std::scoped_lock lock(mutex_);
  notify_ = std::move(notify);
}

// Logs nothing before it ends the process: the stuck thread may hold the log's lock.
void EndSignals::wait() {
  std::array<pollfd, 2> either = {{{done_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}}};
  while (::poll(either.data(), either.size(), -1) < 0) {
  }
  if (either[0].revents != 0) {
    return;
  }
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    pass_on(static_cast<int>(info.ssi_signo));
  }
  pollfd done{done_.get(), POLLIN, 0};
  if (::poll(&done, 1, static_cast<int>(grace.count())) == 0) {
    ::_exit(0);
  }
}

void EndSignals::pass_on(int signal) {
  const std::scoped_lock lock(mutex_);
  if (notify_) {
    notify_(signal);
  }
}

}  // namespace lb::agent
