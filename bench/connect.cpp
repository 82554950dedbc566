// A small generator of connections: what a connection costs in time, and how many a second there can be. The
// other end is bench/serve.cpp, whose answer names the endpoint that was reached; one outside of the
// endpoints' range is counted as misrouted.
//
// usage: bench_connect load ADDRESS PORT SPREAD SECONDS CONCURRENT
//          fresh TCP connections, so many at a time, each to the next of SPREAD addresses from ADDRESS on (in
//          an order that jumps); one JSON object: connections a second, times to connect and to the answer,
//          failures, endpoints met
//        bench_connect call ADDRESS PORT SPREAD COUNT     the system call connect() of a UDP socket alone, in
//        nanoseconds bench_connect watch ADDRESS PORT                 "UNIX-TIME ENDPOINT" whenever another
//        endpoint answers, until it is ended bench_connect bulk ADDRESS PORT SECONDS          gigabits a
//        second of one connection
#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "bench/ends.hpp"
#include "bench/tool.hpp"

namespace lb::bench {
namespace {

constexpr double patience = 5;  ///< seconds until a connection counts as lost
constexpr std::uint32_t endpoint_range = 0x0a800000, endpoint_mask = 0xff800000;  ///< 10.128.0.0/9

/// Addresses in turn, neighbours far apart.
class Targets {
 public:
  Targets(const char* address, std::uint32_t port, std::uint32_t spread)
      : first_(end_of(address, port)), spread_(std::max(spread, 1U)) {}
  sockaddr_in next() {
    auto end = first_;
    at_ = (at_ + 7919) % spread_;
    end.sin_addr.s_addr = htonl(ntohl(first_.sin_addr.s_addr) + at_);
    return end;
  }

 private:
  sockaddr_in first_;
  std::uint32_t spread_, at_ = 0;
};

struct Figures {
  std::vector<float> connect, answer;  ///< seconds
  std::unordered_set<Answer> endpoints;
  std::uint64_t failed = 0, misrouted = 0;
  double seconds = 0;
};

/// One connection from its connect() to the server's end of it.
struct Attempt {
  maps::Fd fd;
  Clock::time_point begin;
  bool connected = false, answered = false;
};

class Load {
 public:
  Load(Targets targets, std::uint32_t concurrent)
      : targets_(targets),
        poll_(must(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        attempts_(concurrent) {}

  Figures run(double seconds) {
    begin_ = Clock::now();
    until_ = begin_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    for (std::uint32_t slot = 0; slot < attempts_.size(); ++slot) start(slot);
    while (open_ > 0) turn();
    figures_.seconds = seconds_since(begin_);
    return std::move(figures_);
  }

 private:
  void start(std::uint32_t slot) {
    auto& attempt = attempts_[slot];
    attempt = {.fd = socket_of(SOCK_STREAM | SOCK_NONBLOCK), .begin = Clock::now()};
    if (attempt.begin >= until_) {
      attempt.fd = maps::Fd();
      return;
    }
    epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.u32 = slot}};
    const auto end = targets_.next();
    // What fails at once would fail at once again.
    const int made = ::connect(attempt.fd.get(), plain(end), sizeof(end));
    if (made != 0 && errno != EINPROGRESS) must(made, "connect");
    ++open_;
    must(::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, attempt.fd.get(), &event), "epoll_ctl");
  }

  void turn() {
    std::array<epoll_event, 64> events{};
    const int count = ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), 200);
    for (int at = 0; at < count; ++at) step(events[static_cast<std::size_t>(at)]);
    if (count > 0) return;
    for (std::uint32_t slot = 0; slot < attempts_.size(); ++slot) {
      if (attempts_[slot].fd && seconds_since(attempts_[slot].begin) > patience) finish(slot);
    }
  }

  void step(const epoll_event& event) {
    auto& attempt = attempts_[event.data.u32];
    if (!attempt.connected && (event.events & EPOLLOUT) != 0 && (event.events & EPOLLERR) == 0) {
      attempt.connected = true;
      figures_.connect.push_back(static_cast<float>(seconds_since(attempt.begin)));
    }
    if ((event.events & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP)) != 0) read(event.data.u32);
  }

  void read(std::uint32_t slot) {
    auto& attempt = attempts_[slot];
    Answer answer = 0;
    for (;;) {
      const auto got = ::recv(attempt.fd.get(), &answer, sizeof(answer), 0);
      if (got < 0 && errno == EAGAIN) return;
      if (got != sizeof(answer)) return finish(slot);
      attempt.answered = true;
      figures_.endpoints.insert(answer);
      figures_.misrouted += (ntohl(answer) & endpoint_mask) == endpoint_range ? 0 : 1;
    }
  }

  void finish(std::uint32_t slot) {
    auto& attempt = attempts_[slot];
    if (attempt.answered) figures_.answer.push_back(static_cast<float>(seconds_since(attempt.begin)));
    figures_.failed += attempt.answered ? 0 : 1;
    attempt.fd = maps::Fd();
    --open_;
    start(slot);
  }

  Targets targets_;
  maps::Fd poll_;
  std::vector<Attempt> attempts_;
  Figures figures_;
  Clock::time_point begin_, until_;
  std::uint32_t open_ = 0;
};

double percentile(std::vector<float>& values, double share) {
  if (values.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::ranges::nth_element(values, at);
  return static_cast<double>(*at);
}

void load(char** words) {
  Load generator({words[0], number(words[1]), number(words[2])}, number(words[4]));
  auto found = generator.run(number(words[3]));
  const auto rate = static_cast<double>(found.answer.size()) / found.seconds;
  fmt::print(
      R"({{"per_second": {:.6g}, "connect_p50": {:.6g}, "connect_p90": {:.6g}, "connect_p99": {:.6g}, "answer_p50": {:.6g}, "answer_p99": {:.6g}, "connections": {}, "failed": {}, "misrouted": {}, "endpoints_hit": {}}})"
      "\n",
      rate, percentile(found.connect, 0.5), percentile(found.connect, 0.9), percentile(found.connect, 0.99),
      percentile(found.answer, 0.5), percentile(found.answer, 0.99), found.answer.size(), found.failed,
      found.misrouted, found.endpoints.size());
}

/// Each call on a socket of its own, because a second connect() of one takes other ways.
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

/// 0: nobody answered.
Answer ask(const sockaddr_in& end) {
  const auto socket = socket_of(SOCK_STREAM);
  const timeval most{.tv_sec = 1, .tv_usec = 0};
  for (const int which : {SO_RCVTIMEO, SO_SNDTIMEO})
    must(::setsockopt(socket.get(), SOL_SOCKET, which, &most, sizeof(most)), "SO_RCVTIMEO");
  Answer answer = 0;
  if (::connect(socket.get(), plain(end), sizeof(end)) != 0) return 0;
  if (::recv(socket.get(), &answer, sizeof(answer), MSG_WAITALL) != sizeof(answer)) return 0;
  char rest = 0;
  (void)::recv(socket.get(), &rest, 1, 0);  // the server's end, so that no port of ours waits
  return answer;
}

/// A thousand times a second at most, so as not to be what the machine does.
[[noreturn]] void watch(char** words) {
  const auto end = end_of(words[0], number(words[1]));
  Answer last = ~Answer{0};
  for (;;) {
    const Answer answer = ask(end);
    const auto now =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    if (answer != last) {
      std::array<char, INET_ADDRSTRLEN> text{};
      ::inet_ntop(AF_INET, &answer, text.data(), text.size());
      fmt::print("{:.6f} {}\n", now, answer == 0 ? "-" : text.data());
      std::fflush(stdout);
      last = answer;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void bulk(char** words) {
  const auto end = end_of(words[0], number(words[1]));
  const auto socket = socket_of(SOCK_STREAM);
  must(::connect(socket.get(), plain(end), sizeof(end)), "connect");
  const std::vector<char> chunk(std::size_t{256} << 10U);
  const double seconds = number(words[2]);
  const auto begin = Clock::now();
  std::uint64_t bytes = 0;
  while (seconds_since(begin) < seconds) {
    const auto sent = ::send(socket.get(), chunk.data(), chunk.size(), MSG_NOSIGNAL);
    if (sent <= 0) throw std::runtime_error(std::string("send: ") + std::strerror(errno));
    bytes += static_cast<std::uint64_t>(sent);
  }
  fmt::print(R"({{"gigabits": {:.5g}}})"
             "\n",
             static_cast<double>(bytes) * 8e-9 / seconds_since(begin));
}

const Commands commands = {
    {"load", {load, 5}}, {"call", {call, 4}}, {"watch", {watch, 2}}, {"bulk", {bulk, 3}}};

}  // namespace
}  // namespace lb::bench

int main(int count, char** words) {
  return lb::bench::run_tool("bench_connect", lb::bench::commands,
                             "usage: see the first lines of bench/connect.cpp", count, words);
}
