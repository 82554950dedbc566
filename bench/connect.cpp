// SPDX-License-Identifier: Apache-2.0
// A small connection generator: the duration of a connection, and connections per second. The server is
// bench/serve.cpp, whose answer names the endpoint that was reached.
//
// usage: bench_connect load ADDRESS PORT SPREAD SECONDS CONCURRENT FIRST COUNT
//          New TCP connections, CONCURRENT at a time, each to another of SPREAD addresses from ADDRESS on, in
//          an order in which neighbours are far apart. The COUNT endpoints from address FIRST on may answer;
//          with a COUNT of 0 only the addressed endpoint. Prints one JSON object: connections per second,
//          times to connect and to the answer, number of endpoints that answered, and how many connections
//            failed     had no answer
//            reset      ended by an error, or were not closed by the server in time; those of them without
//                       an answer count as failed, too
//            misrouted  were answered by another address
//        bench_connect call ADDRESS PORT SPREAD COUNT
//          The duration of the system call connect() of a UDP socket, in nanoseconds.
//        bench_connect bulk ADDRESS PORT SECONDS
//          Gigabits per second that arrive by one connection; if the server has not received all that was
//          sent, "failed" instead.
//        bench_connect watch ADDRESS PORT
//          Prints "UNIX-TIME ENDPOINT" whenever another endpoint answers, "UNIX-TIME -" for each connection
//          without an answer, until it is ended.
//        bench_connect steady ADDRESS PORT RATE SECONDS
//          New connections one after the other, at most RATE per second, until SIGTERM or SIGINT if SECONDS
//          is 0. At the end prints one JSON object:
//            {"asked": 3, "failed": 0, "reset": 0, "answers": {"10.128.0.1": 3},
//             "first": {"10.128.0.1": 1795420000.123456}, "last": {"10.128.0.1": 1795420002.123456}}
//          failed and reset as above; first: Unix time of an endpoint's first answer; last: of the start of
//          the last connection that it answered.
#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <unordered_set>
#include <vector>

#include "bench/ask.hpp"
#include "bench/ends.hpp"
#include "bench/tool.hpp"

namespace lb::bench {
namespace {

constexpr double connection_timeout = 5;  ///< seconds until a connection counts as failed

/// Yields the addresses in an order in which neighbours are far apart.
class Targets {
 public:
  Targets(const char* address, std::uint32_t port, std::uint32_t spread)
      : first_(end_of(address, port)), spread_(std::max(spread, 1U)) {}
  sockaddr_in next() {
    auto end = first_;
    at_ = (at_ + 7919) % spread_;
    end.sin_addr.s_addr = htonl(host_order(first_) + at_);
    return end;
  }

 private:
  sockaddr_in first_;
  std::uint32_t spread_, at_ = 0;
};

/// The endpoints that may answer: `count` addresses from `first` on, or, with a count of 0, only the address
/// of the request.
class Expected {
 public:
  Expected(const char* first, std::uint32_t count) : first_(host_order(end_of(first, 0))), count_(count) {}
  [[nodiscard]] bool contains(Answer answer, const sockaddr_in& target) const {
    return count_ == 0 ? answer == target.sin_addr.s_addr : ntohl(answer) - first_ < count_;
  }

 private:
  std::uint32_t first_, count_;
};

struct Figures {
  std::vector<float> connect, answer;  ///< in seconds
  std::unordered_set<Answer> endpoints;
  std::uint64_t failed = 0, reset = 0, misrouted = 0;
  double seconds = 0;
};

/// A connection from connect() until the server closes it.
struct Attempt {
  maps::Fd fd;
  sockaddr_in target;
  Clock::time_point begin;
  bool connected = false, answered = false;
};

/// How a connection ends: closed by the server, by an error, or by a timeout.
enum class End : std::uint8_t { closed, error, silence };

class Load {
 public:
  Load(Targets targets, Expected expected, std::uint32_t concurrent)
      : targets_(targets),
        expected_(expected),
        poll_(must(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        attempts_(concurrent) {}

  Figures run(double seconds) {
    begin_ = Clock::now();
    until_ = begin_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    for (std::uint32_t slot = 0; slot < attempts_.size(); ++slot) {
      start(slot);
    }
    while (open_ > 0) {
      turn();
    }
    figures_.seconds = seconds_since(begin_);
    return std::move(figures_);
  }

 private:
  void start(std::uint32_t slot) {
    auto& attempt = attempts_[slot];
    attempt = {
        .fd = socket_of(SOCK_STREAM | SOCK_NONBLOCK), .target = targets_.next(), .begin = Clock::now()};
    if (attempt.begin >= until_) {
      attempt.fd = maps::Fd();
      return;
    }
    epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.u32 = slot}};
    // A connection that fails at once is not retried, because it would fail again.
    const int made = ::connect(attempt.fd.get(), plain(attempt.target), sizeof(attempt.target));
    if (made != 0 && errno != EINPROGRESS) {
      must(made, "connect");
    }
    ++open_;
    must(::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, attempt.fd.get(), &event), "epoll_ctl");
  }

  void turn() {
    std::array<epoll_event, 64> events{};
    const int count = ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), 200);
    for (int at = 0; at < count; ++at) {
      step(events[static_cast<std::size_t>(at)]);
    }
    if (count > 0) {
      return;
    }
    for (std::uint32_t slot = 0; slot < attempts_.size(); ++slot) {
      if (attempts_[slot].fd && seconds_since(attempts_[slot].begin) > connection_timeout) {
        finish(slot, End::silence);
      }
    }
  }

  void step(const epoll_event& event) {
    auto& attempt = attempts_[event.data.u32];
    if (!attempt.connected && (event.events & EPOLLOUT) != 0 && (event.events & EPOLLERR) == 0) {
      attempt.connected = true;
      figures_.connect.push_back(static_cast<float>(seconds_since(attempt.begin)));
    }
    if ((event.events & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP)) != 0) {
      read(event.data.u32);
    }
  }

  void read(std::uint32_t slot) {
    auto& attempt = attempts_[slot];
    Answer answer = 0;
    for (;;) {
      const auto got = ::recv(attempt.fd.get(), &answer, sizeof(answer), 0);
      if (got < 0 && errno == EAGAIN) {
        return;
      }
      if (got != sizeof(answer)) {
        return finish(slot, got < 0 ? End::error : End::closed);
      }
      attempt.answered = true;
      figures_.endpoints.insert(answer);
      figures_.misrouted += expected_.contains(answer, attempt.target) ? 0 : 1;
    }
  }

  void finish(std::uint32_t slot, End end) {
    auto& attempt = attempts_[slot];
    if (attempt.answered) {
      figures_.answer.push_back(static_cast<float>(seconds_since(attempt.begin)));
    }
    figures_.failed += attempt.answered ? 0 : 1;
    figures_.reset += end == End::error || (end == End::silence && attempt.answered) ? 1 : 0;
    attempt.fd = maps::Fd();
    --open_;
    start(slot);
  }

  Targets targets_;
  Expected expected_;
  maps::Fd poll_;
  std::vector<Attempt> attempts_;
  Figures figures_;
  Clock::time_point begin_, until_;
  std::uint32_t open_ = 0;
};

double percentile(std::vector<float>& values, double share) {
  if (values.empty()) {
    return 0;
  }
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::ranges::nth_element(values, at);
  return static_cast<double>(*at);
}

void load(char** words) {
  Load generator({words[0], number(words[1]), number(words[2])}, {words[5], number(words[6])},
                 number(words[4]));
  auto found = generator.run(number(words[3]));
  const auto rate = static_cast<double>(found.answer.size()) / found.seconds;
  fmt::print(
      R"({{"per_second": {:.6g}, "connect_p50": {:.6g}, "connect_p90": {:.6g}, "connect_p99": {:.6g}, "answer_p50": {:.6g}, "answer_p99": {:.6g}, "connections": {}, "failed": {}, "reset": {}, "misrouted": {}, "endpoints_hit": {}}})"
      "\n",
      rate, percentile(found.connect, 0.5), percentile(found.connect, 0.9), percentile(found.connect, 0.99),
      percentile(found.answer, 0.5), percentile(found.answer, 0.99), found.answer.size(), found.failed,
      found.reset, found.misrouted, found.endpoints.size());
}

/// Each call uses a new socket, because a second connect() of a socket takes another code path.
void call(char** words) {
  Targets targets(words[0], number(words[1]), number(words[2]));
  std::vector<float> times(number(words[3]));
  for (auto& time : times) {
    const auto socket = socket_of(SOCK_DGRAM);
    const auto end = targets.next();
    const auto begin = Clock::now();
    must(::connect(socket.get(), plain(end), sizeof(end)), "connect");
    time = static_cast<float>(seconds_since(begin) * 1e9);
  }
  fmt::print(R"({{"call_p50": {:.5g}, "call_p99": {:.5g}, "calls": {}}})"
             "\n",
             percentile(times, 0.5), percentile(times, 0.99), times.size());
}

/// The bytes sent until the time was over or the connection ended.
struct Sent {
  std::uint64_t bytes = 0;
  bool reset = false;
};

Sent send_for(double seconds, int socket) {
  const std::vector<char> chunk(std::size_t{256} << 10U);
  const auto begin = Clock::now();
  Sent sent;
  while (!sent.reset && seconds_since(begin) < seconds) {
    const auto taken = ::send(socket, chunk.data(), chunk.size(), MSG_NOSIGNAL);
    if (taken > 0) {
      sent.bytes += static_cast<std::uint64_t>(taken);
    } else {
      sent.reset = cut(taken);
    }
  }
  return sent;
}

void bulk(char** words) {
  const auto end = end_of(words[0], number(words[1]));
  const auto socket = socket_with_timeout(static_cast<time_t>(connection_timeout));
  const bool made = ::connect(socket.get(), plain(end), sizeof(end)) == 0;
  const auto begin = Clock::now();
  const auto sent = made ? send_for(number(words[2]), socket.get()) : Sent{};
  ::shutdown(socket.get(), SHUT_WR);
  Total arrived = 0;
  const auto got = ::recv(socket.get(), &arrived, sizeof(arrived), MSG_WAITALL);
  const bool reset = sent.reset || cut(got);
  if (got == sizeof(arrived) && arrived == sent.bytes && !reset) {
    fmt::print(R"({{"gigabits": {:.5g}, "failed": 0, "reset": 0}})"
               "\n",
               static_cast<double>(arrived) * 8e-9 / seconds_since(begin));
  } else {
    fmt::print(R"({{"failed": 1, "reset": {}}})"
               "\n",
               reset ? 1 : 0);
  }
}

const Commands commands = {{"load", {load, 7}},
                           {"call", {call, 4}},
                           {"bulk", {bulk, 3}},
                           {"watch", {watch, 2}},
                           {"steady", {steady, 4}}};

}  // namespace
}  // namespace lb::bench

int main(int count, char** words) {
  return lb::bench::run_tool("bench_connect", lb::bench::commands,
                             "usage: see the first lines of bench/connect.cpp", count, words);
}
