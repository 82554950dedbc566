// SPDX-License-Identifier: Apache-2.0
// REL-4: SYNs from ever new clients, from another namespace and at the device's full rate, while a thousand
// established connections make progress, and as many that the node only routes. SLUICE_LONG: ten million SYNs
// with all optional features, or SLUICE_SYNS; a tenth of that for IPv6, and for scenes that differ only in a
// table's size or in the processes that run.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/net/lib/flood.hpp"
#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t backend_port = 8080;
constexpr std::size_t connections = 1000;

bool is_long() { return std::getenv("SLUICE_LONG") != nullptr; }

enum class Share : std::uint8_t { whole = 1, tenth = 10 };

/// The number of SYNs; the share applies in the long form.
std::uint32_t flood_size(int family, Share share) {
  const auto* said = std::getenv("SLUICE_SYNS");
  if (!is_long()) {
    return 40'000;
  }
  if (std::getenv("SLUICE_WITHOUT") != nullptr) {
    share = Share::tenth;
  }
  const auto size = said != nullptr ? static_cast<std::uint32_t>(std::atol(said)) : 10'000'000;
  return size / static_cast<std::uint32_t>(share) / (family == AF_INET ? 1 : 10);
}

/// A connection that exchanges a kilobyte again and again.
struct Established {
  Socket client;
  maps::Fd server;
  std::uint64_t rounds = 0;
  std::size_t got = 0;  ///< bytes received of the current kilobyte
};

constexpr std::array<char, 1000> words{};

bool send_words(int from) {
  return ::send(from, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == std::ssize(words);
}

enum class At : std::uint8_t { client, server };

/// Receives, and replies once a whole kilobyte has arrived; returns false if the connection is broken.
bool go_on(Established& each, At at) {
  const int fd = at == At::client ? each.client.fd() : each.server.get();
  std::array<char, words.size()> buffer{};
  const auto size = ::recv(fd, buffer.data(), words.size() - each.got, MSG_DONTWAIT);
  if (size <= 0) {
    return size < 0 && errno == EAGAIN;
  }
  each.got += static_cast<std::size_t>(size);
  if (each.got < words.size()) {
    return true;
  }
  each.got = 0;
  each.rounds += at == At::client ? 1 : 0;
  return send_words(fd);
}

using Rounds = std::vector<std::uint64_t>;

/// Established connections that all exchange data at once.
class Talkers {
 public:
  void add(Socket client, maps::Fd server) {
    const auto number = static_cast<std::uint32_t>(all_.size());
    watch(client.fd(), {number, At::client});
    watch(server.get(), {number, At::server});
    REQUIRE(send_words(client.fd()));
    all_.push_back({std::move(client), std::move(server)});
  }

  /// Handles the events of up to a tenth of a second; returns how many connections broke.
  int go_on() {
    std::array<epoll_event, 64> events{};
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 100);
    int broken = 0;
    for (int at = 0; at < count; ++at) {
      const auto tag = events.at(static_cast<std::size_t>(at)).data.u64;
      broken += test::go_on(all_.at(tag >> 1), static_cast<At>(tag & 1)) ? 0 : 1;
    }
    return broken;
  }

  [[nodiscard]] Rounds rounds() const {
    Rounds all;
    for (const auto& each : all_) {
      all.push_back(each.rounds);
    }
    return all;
  }

 private:
  struct Tag {
    std::uint64_t number;
    At at;
  };
  void watch(int fd, Tag tag) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = (tag.number << 1) | static_cast<std::uint64_t>(tag.at);
    REQUIRE(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
  }

  maps::Fd epoll_{::epoll_create1(EPOLL_CLOEXEC)};
  std::vector<Established> all_;
};

/// The kernel sends again what devices lose in a flood: only half a minute without two rounds is a failure.
constexpr std::chrono::seconds timeout{30};

/// The progress of each connection since `before`.
Rounds since(const Rounds& before, const Talkers& talkers) {
  auto rounds = talkers.rounds();
  std::ranges::transform(rounds, before, rounds.begin(), std::minus<>());
  return rounds;
}

bool all_went_on(const Rounds& rounds) { return *std::ranges::min_element(rounds) >= 2; }

bool all_go_on(Talkers& talkers) {
  const auto before = talkers.rounds();
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!all_went_on(since(before, talkers))) {
    if (talkers.go_on() > 0 || std::chrono::steady_clock::now() > deadline) {
      return false;
    }
  }
  return true;
}

void allow_many_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 8192);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

struct FloodScene : PodScene {
  explicit FloodScene(std::string PodNames::* name) : PodScene(Wiring::routed), backend_name(name) {
    allow_many_files();
    // Replies to the flood are routed to its sender, which drops them.
    shell("ip route add 10.128.0.0/9 via 192.0.2.100 && ip route add 2001:db8:f::/48 via 2001:db8:1::100");
    remote.run("ip route add 10.128.0.0/9 via 192.0.2.1 && ip route add 2001:db8:f::/48 via 2001:db8:1::1");
    outside.run("ip route add blackhole 10.128.0.0/9 && ip route add blackhole 2001:db8:f::/48");
  }

  void begin() {
    packets = attach().packets_text();
    writer.emplace(lab.pins());
    for (const int family : {AF_INET, AF_INET6}) {
      const auto number = family == AF_INET ? 1U : 2U;
      writer->service(number, {{number, backend(family)}});
      writer->frontend(where(family), LB_TCP, number, LB_LOAD_BALANCER);
    }
  }

  [[nodiscard]] static End where(int family) { return end(names(family).vip, port); }
  [[nodiscard]] End backend(int family) const { return end(names(family).*backend_name, backend_port); }

  [[nodiscard]] std::uint32_t syns(int family) const { return flood_size(family, share); }

  std::string PodNames::* backend_name;
  Share share = Share::whole;
  std::string packets;
  std::optional<Writer> writer;
};

void establish(const FloodScene& scene, const Socket& listener, int family, Talkers& talkers) {
  for (std::size_t number = 0; number < connections; ++number) {
    auto made = scene.outside.socket(family, SOCK_STREAM);
    REQUIRE(made.connect(FloodScene::where(family)) == 0);
    auto taken = take(listener);
    REQUIRE(taken);
    talkers.add(std::move(made), std::move(taken));
  }
}

/// The number of first packets that our programs have seen, whatever their outcome.
std::uint64_t arrived(const Writer& writer) {
  const auto stats = writer.counters();
  return stats.new_local + stats.new_remote + stats.new_xdp + stats.ports_exhausted;
}

/// The frames of a flood, the connections that broke in it, and each connection's progress.
struct Progress {
  std::uint64_t frames = 0;
  int broken = 0;
  Rounds rounds = Rounds(connections);

  void operator+=(const Progress& more) {
    frames += more.frames;
    broken += more.broken;
    std::ranges::transform(rounds, more.rounds, rounds.begin(), std::plus<>());
  }
  [[nodiscard]] std::uint64_t least() const { return *std::ranges::min_element(rounds); }
  [[nodiscard]] std::uint64_t median() const {
    auto sorted = rounds;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
  [[nodiscard]] double a_frame() const {
    const auto all = std::accumulate(rounds.begin(), rounds.end(), std::uint64_t{0});
    return static_cast<double>(all) / static_cast<double>(frames);
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{:.4f} rounds a SYN of {}, the least {}, the median {}", a_frame(), frames, least(),
                       median());
  }
};

/// Runs all connections during a flood, which ends when `seen` has increased by `size` and every connection
/// has progressed by two rounds, or when one has stopped.
template <class Seen>
Progress talk_beside(Talkers& talkers, const Flood& flood, std::uint32_t size, Seen seen) {
  constexpr std::uint32_t batch = 5000;
  const auto before = seen();
  const auto rounds = talkers.rounds();
  std::atomic<bool> enough = false;
  std::atomic<bool> over = false;
  std::jthread sender([&] {
    while (!enough || seen() - before < size) {
      flood.send(batch);
      std::this_thread::yield();
    }
    over = true;
  });
  Progress progress;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!over) {
    progress.broken += talkers.go_on();
    enough = enough || all_went_on(since(rounds, talkers)) || std::chrono::steady_clock::now() > deadline;
  }
  progress.frames = seen() - before;
  progress.rounds = since(rounds, talkers);
  return progress;
}

/// Alternates a flood of the service with one of its backend, which the node only routes: comparing the
/// connections' progress per frame in both needs no clock.
void flood_by_turns(Talkers& talkers, const FloodScene& scene, int family) {
  const Flood to_backend(scene.outside, Host::here(), scene.backend(family));
  const Flood to_service(scene.outside, Host::here(), FloodScene::where(family));
  const std::uint32_t turns = is_long() ? 4 : 1;
  Progress routed;
  Progress balanced;
  for (std::uint32_t turn = 0; turn < turns; ++turn) {
    routed += talk_beside(talkers, to_backend, scene.syns(family) / 10 / turns,
                          [&] { return to_backend.arrived(); });
    balanced +=
        talk_beside(talkers, to_service, scene.syns(family) / turns, [&] { return arrived(*scene.writer); });
  }
  for (const auto& progress : {routed, balanced}) {
    CHECK(progress.broken == 0);
    CHECK(progress.least() >= std::uint64_t{2} * turns);
  }
  if (is_long()) {
    WARN("balanced: " << balanced.text() << "; routed: " << routed.text());
    CHECK(balanced.a_frame() > routed.a_frame() / 2);
    CHECK(balanced.least() > balanced.median() / 2);
  }
}

void withstand(const FloodScene& scene, const Host& backend_host, int family) {
  INFO((family == AF_INET ? "IPv4" : "IPv6"));
  const auto server = serve_at(backend_host, SOCK_STREAM, scene.backend(family));
  Talkers talkers;
  establish(scene, server, family, talkers);
  const auto rose = counter_deltas(*scene.writer, [&] { flood_by_turns(talkers, scene, family); });
  CHECK((rose.new_xdp > scene.syns(family) / 2) == scene.runs_xdp());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  for (int number = 0; number < 20; ++number) {
    CHECK(talk(scene.outside, server, SOCK_STREAM, FloodScene::where(family), 1000));
  }
  CHECK(all_go_on(talkers));
}

void withstand(const FloodScene& scene, const Host& backend_host) {
  for (const int family : {AF_INET, AF_INET6}) {
    withstand(scene, backend_host, family);
  }
}

}  // namespace

TEST_CASE("REL-4 a flood of SYNs to a pod here breaks nothing") {
  FloodScene scene(&PodNames::server);
  scene.begin();
  withstand(scene, scene.server);
}

TEST_CASE("REL-4 a flood of SYNs through source NAT breaks nothing") {
  FloodScene scene(&PodNames::remote_pod);
  SECTION("by tc") { scene.begin(); }
  SECTION("by XDP") {
    scene.options.xdp = agent::XdpMode::native;
    scene.check_sums();
    scene.begin();
    CHECK((scene.packets.find("native") != std::string::npos) == scene.runs_xdp());
  }
  SECTION("with more room for unassured flows than there are source ports") {
    scene.share = Share::tenth;
    scene.options.sizes.unassured = 65536;
    scene.begin();
  }
  SECTION("while no agent runs") {
    scene.share = Share::tenth;
    scene.begin();
    scene.datapath.reset();
  }
  SECTION("with the flow table at its limit") {
    scene.share = Share::tenth;
    scene.options.sizes.flows = 2 * connections;
    scene.begin();
  }
  SECTION("while no agent runs, with the flow table at its limit") {
    scene.options.sizes.flows = 2 * connections;
    scene.begin();
    scene.datapath.reset();
  }
  withstand(scene, scene.remote);
}

}  // namespace lb::test
