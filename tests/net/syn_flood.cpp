// REL-4: SYNs of ever other clients, from another namespace and as fast as frames can be sent, while a
// thousand established connections go on. SLUICE_LONG: ten million of them.
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
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

std::uint32_t flood_size() { return std::getenv("SLUICE_LONG") != nullptr ? 10'000'000 : 40'000; }

struct Established {
  Socket client;
  maps::Fd server;
};

/// Each passes a kilobyte there and back; how many could not.
std::size_t broken(const std::vector<Established>& all) {
  std::size_t failed = 0;
  for (const auto& each : all) {
    failed +=
        pass(each.client.fd(), each.server.get(), 1000) && pass(each.server.get(), each.client.fd(), 1000)
            ? 0
            : 1;
  }
  return failed;
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

/// Rounds of transfers until the flood's frames have met our programs often enough; how many transfers
/// failed. A veth throws away what its other end does not take in time.
std::size_t transfer_meanwhile(const std::vector<Established>& all, const FloodScene& scene) {
  constexpr std::uint32_t batch = 5000;
  const Flood flood(scene.outside, Host::here(), scene.where);
  const auto before = arrived(*scene.writer);
  std::atomic<bool> over = false;
  std::uint32_t sent = 0;
  std::jthread sender([&] {
    while (arrived(*scene.writer) - before < flood_size() && sent < 20 * flood_size()) {
      flood.send(batch);
      sent += batch;
      std::this_thread::yield();
    }
    over = true;
  });
  std::size_t failed = 0;
  do {
    failed += broken(all);
  } while (!over);
  CHECK(arrived(*scene.writer) - before >= flood_size());
  return failed;
}

void withstand(const FloodScene& scene, const Host& backend_host) {
  const auto server = serve_at(backend_host, SOCK_STREAM, scene.backend);
  std::vector<Established> all;
  scene.establish(server, all);
  CHECK(transfer_meanwhile(all, scene) == 0);
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
