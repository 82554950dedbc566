// SPDX-License-Identifier: Apache-2.0
// XDP and link-layer addresses that change: neighbours that are flushed or wrong, and the device's own
// (REL-21, REL-65).
#include <fmt/format.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/net/packets/xdp_scene.hpp"

namespace lb::test {
namespace {

/// Shortens the kernel's neighbour timers, to shorten the tests.
void shorten_neighbour_timers() {
  shell(
      "for each in ipv4 ipv6; do cd /proc/sys/net/$each/neigh/eth0 && echo 1 >delay_first_probe_time && "
      "echo 100 >retrans_time_ms; done");
}

/// Sends until a reply arrives; returns false after half a minute.
bool is_answered_again(const Socket& client, const Socket& server, const End& where) {
  constexpr std::chrono::milliseconds moment(50);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < deadline) {
    static_cast<void>(client.send_to(where, "words"));
    if (is_readable(server.fd(), moment)) {
      static_cast<void>(echo_once(server));
    }
    if (is_readable(client.fd(), moment)) {
      return true;
    }
  }
  return false;
}

/// Gives eth0 another link-layer address, which its neighbours learn at once.
void give_address(const PodScene& scene, const char* address) {
  shell(fmt::format("ip link set eth0 address {}", address));
  for (const auto* host : {&scene.remote, &scene.outside}) {
    host->run("ip neighbour flush dev eth0");
  }
}

}  // namespace

TEST_CASE("REL-21 neighbours that are flushed under load lose no request") {
  for (const auto mode : {agent::XdpMode::off, agent::XdpMode::native}) {
    INFO(mode_text(mode));
    XdpScene scene(mode);
    shorten_neighbour_timers();
    REQUIRE(scene.attach().failure().empty());
    Writer writer(scene.lab.pins());
    for (const int family : {AF_INET, AF_INET6}) {
      INFO((family == AF_INET ? " IPv4" : " IPv6"));
      const auto made = offer(writer, family);
      const auto elsewhere = serve_at(scene.remote, SOCK_STREAM, made.elsewhere_backend);
      RequestLoop requests(scene.outside, elsewhere, made.elsewhere);
      // A SYN that waits for a neighbour whose entry is flushed again is sent again after a second: on some
      // runs few connections succeed.
      for (int flushed = 0; flushed < 30 || (requests.requests() <= 30 && flushed < 2000); ++flushed) {
        shell("ip neighbour flush dev eth0");
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      CHECK(requests.failures() == 0);
      CHECK(requests.requests() > 30);
    }
  }
}

// XDP takes only frames to the device's own address, which the agent writes to its configuration.
TEST_CASE("a served device may change its link-layer address under traffic", "[features]") {
  const int family = GENERATE(AF_INET, AF_INET6);
  INFO((family == AF_INET ? "IPv4" : "IPv6"));
  XdpScene scene(agent::XdpMode::native);
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  const auto made = offer(writer, family);
  const auto server = serve_at(scene.remote, SOCK_STREAM, made.elsewhere_backend);
  const auto by_xdp = [&] {
    return counter_deltas(writer, [&] {
             CHECK(talk(scene.outside, server, SOCK_STREAM, made.elsewhere));
           }).flow_xdp > 0;
  };
  CHECK(by_xdp() == scene.runs_xdp());
  {
    std::vector<std::unique_ptr<RequestLoop>> asking;
    asking.push_back(std::make_unique<RequestLoop>(scene.outside, server, made.elsewhere));
    give_address(scene, "02:00:00:00:00:71");
    wait_for(asking, 5);
    REQUIRE(scene.attach().failure().empty());
    wait_for(asking, 5);
    CHECK(asking.front()->failures() == 0);
  }
  CHECK(by_xdp() == scene.runs_xdp());
  // The next agent keeps the running program, and with it that program's memory.
  scene.datapath.reset();
  give_address(scene, "02:00:00:00:00:72");
  CHECK(scene.attach().count(agent::HookState::kept) >= 3);
  CHECK(by_xdp() == scene.runs_xdp());
}

TEST_CASE("REL-65 a neighbour with a wrong address is asked for again and found") {
  for (const auto mode : {agent::XdpMode::off, agent::XdpMode::native}) {
    XdpScene scene(mode);
    shorten_neighbour_timers();
    REQUIRE(scene.attach().failure().empty());
    Writer writer(scene.lab.pins());
    for (const int family : {AF_INET, AF_INET6}) {
      INFO(mode_text(mode) << (family == AF_INET ? " IPv4" : " IPv6"));
      const auto& known = names(family);
      const auto made = offer(writer, family);
      const auto server = serve_at(scene.remote, SOCK_DGRAM, made.elsewhere_backend);
      const auto client = scene.outside.socket(family, SOCK_DGRAM);
      REQUIRE(client.send_to(made.elsewhere, "words") == 0);
      REQUIRE(echo_once(server));
      REQUIRE(client.receive());
      for (const auto* host : {&known.remote, &known.outside}) {
        shell(fmt::format("ip neighbour replace {} lladdr 02:00:00:00:00:99 dev eth0 nud stale", *host));
      }
      CHECK(is_answered_again(client, server, made.elsewhere));
    }
  }
}

}  // namespace lb::test
