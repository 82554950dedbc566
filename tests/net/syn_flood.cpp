// REL-4: SYNs of ever other clients, from another namespace and as fast as frames can be sent, while a
// thousand established connections go on, beside as many that the node only routes. SLUICE_LONG: ten million
// of each.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/net/flood.hpp"
#include "tests/net/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t backend_port = 8080;
constexpr std::size_t connections = 1000;

bool is_long() { return std::getenv("SLUICE_LONG") != nullptr; }

std::uint32_t flood_size() { return is_long() ? 10'000'000 : 40'000; }

struct Established {
  Socket client;
  maps::Fd server;
};

/// What devices lose of a flood, the kernel sends again: only a minute without a byte is an end.
void be_patient(int connected) {
  constexpr timeval minute{60, 0};
  ::setsockopt(connected, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof(minute));
}

bool crosses(int from, int to) {
  std::array<char, 1000> words{};
  constexpr auto size = static_cast<ssize_t>(words.size());
  return ::send(from, words.data(), words.size(), MSG_NOSIGNAL) == size &&
         ::recv(to, words.data(), words.size(), MSG_WAITALL) == size;
}

/// A kilobyte there and back.
bool works(const Established& each) {
  return crosses(each.client.fd(), each.server.get()) && crosses(each.server.get(), each.client.fd());
}

std::ptrdiff_t broken(const std::vector<Established>& all) {
  return std::ranges::count_if(all, [](const auto& each) { return !works(each); });
}

void allow_many_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 8192);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

struct FloodScene : PodScene {
  explicit FloodScene(std::string PodNames::* backend_name)
      : PodScene(Wiring::routed),
        where(end(names(AF_INET).vip, port)),
        backend(end(names(AF_INET).*backend_name, backend_port)) {
    allow_many_files();
    // Answers to the flood have a way, and end where it came from.
    shell("ip route add 10.128.0.0/9 via 192.0.2.100");
    remote.run("ip route add 10.128.0.0/9 via 192.0.2.1");
    outside.run("ip route add blackhole 10.128.0.0/9");
  }

  void begin() {
    REQUIRE(attach().failure().empty());
    writer.emplace(lab.pins());
    writer->service(1, {{1, backend}});
    writer->frontend(where, LB_TCP, 1, LB_LOAD_BALANCER);
  }

  void establish(const Socket& listener, std::vector<Established>& all) const {
    for (std::size_t number = 0; number < connections; ++number) {
      auto made = outside.socket(AF_INET, SOCK_STREAM);
      REQUIRE(made.connect(where) == 0);
      all.push_back({std::move(made), take(listener)});
      REQUIRE(all.back().server);
      be_patient(all.back().client.fd());
      be_patient(all.back().server.get());
    }
    REQUIRE(broken(all) == 0);
  }

  const End where, backend;
  std::optional<Writer> writer;
};

/// First packets that our programs have seen, whatever became of them.
std::uint64_t arrived(const Writer& writer) {
  const auto stats = writer.counters();
  return stats.new_local + stats.new_remote + stats.new_xdp + stats.ports_exhausted;
}

/// What transfers managed beside so many frames.
struct Progress {
  std::uint64_t transfers = 0;
  std::uint64_t failed = 0;
  std::uint64_t frames = 0;

  void operator+=(const Progress& more) {
    transfers += more.transfers;
    failed += more.failed;
    frames += more.frames;
  }
  [[nodiscard]] double a_frame() const {
    return static_cast<double>(transfers) / static_cast<double>(frames);
  }
};

/// Transfers, one connection after the other, until the flood has made `seen` rise by `size`.
template <class Seen>
Progress transfer_beside(const std::vector<Established>& all, const Flood& flood, std::uint32_t size,
                         Seen seen) {
  constexpr std::uint32_t batch = 5000;
  const auto before = seen();
  std::atomic<bool> over = false;
  std::jthread sender([&] {
    for (std::uint32_t sent = 0; seen() - before < size && sent < 20 * size; sent += batch) {
      flood.send(batch);
      std::this_thread::yield();
    }
    over = true;
  });
  Progress progress;
  do {
    progress.failed += works(all.at(progress.transfers++ % all.size())) ? 0 : 1;
  } while (!over || progress.transfers < all.size());
  progress.frames = seen() - before;
  return progress;
}

/// A flood of the service by turns with one of its backend, which the node only routes: what transfers manage
/// beside as many frames of the one and of the other depends on no clock.
void flood_by_turns(const std::vector<Established>& all, const FloodScene& scene) {
  constexpr std::uint32_t turns = 4;
  const Flood to_service(scene.outside, Host::here(), scene.where);
  const Flood to_backend(scene.outside, Host::here(), scene.backend);
  Progress balanced;
  Progress routed;
  for (std::uint32_t turn = 0; turn < turns; ++turn) {
    routed +=
        transfer_beside(all, to_backend, flood_size() / 10 / turns, [&] { return to_backend.arrived(); });
    balanced +=
        transfer_beside(all, to_service, flood_size() / turns, [&] { return arrived(*scene.writer); });
  }
  CHECK(balanced.frames >= flood_size());
  CHECK(routed.frames >= flood_size() / 10);
  CHECK(balanced.failed == 0);
  CHECK(routed.failed == 0);
  if (is_long()) {
    WARN(fmt::format("{} SYNs balanced: {:.4f} transfers a SYN; {} routed: {:.4f}", balanced.frames,
                     balanced.a_frame(), routed.frames, routed.a_frame()));
    CHECK(balanced.a_frame() > routed.a_frame() / 2);
  }
}

void withstand(const FloodScene& scene, const Host& backend_host) {
  const auto server = serve_at(backend_host, SOCK_STREAM, scene.backend);
  std::vector<Established> all;
  scene.establish(server, all);
  flood_by_turns(all, scene);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  for (int number = 0; number < 20; ++number) {
    CHECK(talk(scene.outside, server, SOCK_STREAM, scene.where, 1000));
  }
  CHECK(broken(all) == 0);
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
  }
  SECTION("with more room for young flows than there are source ports") {
    scene.options.sizes.young = 65536;
    scene.begin();
  }
  SECTION("while no agent runs") {
    scene.begin();
    scene.datapath.reset();
  }
  SECTION("with the flow table at its limit") {
    scene.options.sizes.flows = 2 * connections;
    scene.begin();
  }
  withstand(scene, scene.remote);
}

}  // namespace lb::test
