// SPDX-License-Identifier: Apache-2.0
// Connects repeatedly and records which endpoint answers: see bench/ask.hpp.
#include "bench/ask.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <map>
#include <string>
#include <thread>

#include "bench/ends.hpp"

namespace lb::bench {
namespace {

struct Response {
  Answer answer = 0;  ///< 0: no answer
  bool reset = false;
};

Response request(const sockaddr_in& end) {
  const auto socket = socket_with_timeout(1);
  if (const int made = ::connect(socket.get(), plain(end), sizeof(end)); made != 0) {
    return {.answer = 0, .reset = cut(made)};
  }
  Answer answer = 0;
  const auto got = ::recv(socket.get(), &answer, sizeof(answer), MSG_WAITALL);
  if (got != sizeof(answer)) {
    return {.answer = 0, .reset = cut(got)};
  }
  char rest = 0;
  // The server must close first, so that no port of ours stays in TIME_WAIT.
  return {.answer = answer, .reset = ::recv(socket.get(), &rest, 1, 0) != 0};
}

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string text_of(Answer answer) {
  std::array<char, INET_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET, &answer, text.data(), text.size());
  return text.data();
}

/// The signals that end a run. They stay pending until within() reads them, so that no system call is
/// interrupted.
class Ending {
 public:
  Ending() {
    ::sigemptyset(&signals_);
    for (const int signal : {SIGTERM, SIGINT}) {
      ::sigaddset(&signals_, signal);
    }
    ::sigprocmask(SIG_BLOCK, &signals_, nullptr);
  }
  /// Waits that long; returns whether a signal has come.
  [[nodiscard]] bool within(double seconds) const {
    const double whole = std::floor(std::max(seconds, 0.0));
    const timespec most{.tv_sec = static_cast<time_t>(whole),
                        .tv_nsec = static_cast<long>((std::max(seconds, 0.0) - whole) * 1e9)};
    return ::sigtimedwait(&signals_, nullptr, &most) > 0;
  }

 private:
  sigset_t signals_{};
};

struct EndpointAnswers {
  std::uint64_t count = 0;
  double first = 0, last = 0;  ///< Unix times, see bench/connect.cpp
};

struct Tally {
  std::uint64_t requests = 0, failed = 0, reset = 0;
  std::map<std::string, EndpointAnswers> endpoints;

  void take(const Response& found, double begin) {
    ++requests;
    failed += found.answer == 0 ? 1 : 0;
    reset += found.reset ? 1 : 0;
    if (found.answer == 0) {
      return;
    }
    auto& endpoint = endpoints[text_of(found.answer)];
    if (endpoint.count++ == 0) {
      endpoint.first = unix_time();
    }
    endpoint.last = begin;
  }
};

void print_tally(const Tally& tally) {
  std::string answers, first, last;
  for (const auto& [endpoint, found] : tally.endpoints) {
    const char* comma = answers.empty() ? "" : ", ";
    answers += fmt::format(R"({}"{}": {})", comma, endpoint, found.count);
    first += fmt::format(R"({}"{}": {:.6f})", comma, endpoint, found.first);
    last += fmt::format(R"({}"{}": {:.6f})", comma, endpoint, found.last);
  }
  fmt::print(
      R"({{"asked": {}, "failed": {}, "reset": {}, "answers": {{{}}}, "first": {{{}}}, "last": {{{}}}}})"
      "\n",
      tally.requests, tally.failed, tally.reset, answers, first, last);
}

}  // namespace

/// At most a thousand connections a second, to limit the load on the machine.
void watch(char** words) {
  const auto end = end_of(words[0], number(words[1]));
  Answer last = 0;
  for (;;) {
    const auto answer = request(end).answer;
    if (answer == 0 || answer != last) {
      fmt::print("{:.6f} {}\n", unix_time(), answer == 0 ? "-" : text_of(answer));
      std::fflush(stdout);
    }
    last = answer;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void steady(char** words) {
  const auto end = end_of(words[0], number(words[1]));
  const double pause = 1.0 / std::max(number(words[2]), 1U), seconds = number(words[3]);
  const Ending ending;
  const auto begin = Clock::now();
  Tally tally;
  double due = 0;
  for (double now = 0; seconds == 0 || now < seconds; now = seconds_since(begin)) {
    // A slow connection delays the next ones; they are not made up for.
    due = std::max(due + pause, now);
    const double start = unix_time();
    tally.take(request(end), start);
    if (ending.within(due - seconds_since(begin))) {
      break;
    }
  }
  print_tally(tally);
}

}  // namespace lb::bench
