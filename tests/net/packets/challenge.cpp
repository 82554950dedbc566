// SPDX-License-Identifier: Apache-2.0
// REL-175: a client connects again from a port whose last connection its server still has: in TIME_WAIT,
// because the server closed first, or half-open, because the client or this node lost its state. The server
// answers the SYN by an ACK, the client sends a reset, and its next SYN opens, within milliseconds as without
// a service.
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "maps/mapset.hpp"
#include "tests/net/lib/paths.hpp"
#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t backend_port = 8080;
constexpr std::uint16_t client_port = 23'456;
/// A client whose first SYN is not answered repeats it after a second.
constexpr std::chrono::milliseconds soon{900};

/// From linux/tcp.h, which cannot be included beside netinet/tcp.h.
constexpr int send_queue = 2;

void set(int fd, int option, int value) {
  REQUIRE(::setsockopt(fd, IPPROTO_TCP, option, &value, sizeof(value)) == 0);
}

/// A socket on the client's port, whose connection begins at that sequence number.
Socket dialer(const Host& host, int family, std::uint32_t sequence) {
  auto made = host.socket(family, SOCK_STREAM);
  constexpr int yes = 1;
  REQUIRE(::setsockopt(made.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0);
  set(made.fd(), TCP_REPAIR, 1);
  set(made.fd(), TCP_REPAIR_QUEUE, send_queue);
  set(made.fd(), TCP_QUEUE_SEQ, static_cast<int>(sequence));
  set(made.fd(), TCP_REPAIR, 0);
  REQUIRE(made.bind(end(family == AF_INET ? "0.0.0.0" : "::", client_port)) == 0);
  return made;
}

/// The client's socket vanishes without a packet, as if its host had lost its power.
void vanish(const Socket& client) { set(client.fd(), TCP_REPAIR, 1); }

enum class Left { time_wait, half_open, half_open_without_flows };

const char* name(Left left) {
  switch (left) {
    case Left::time_wait:
      return "TIME_WAIT";
    case Left::half_open:
      return "half-open";
    case Left::half_open_without_flows:
      return "half-open, the node lost its flows";
  }
  return "";
}

template <class Key, class Flow>
void empty(maps::HashMap<Key, Flow>& table) {
  std::vector<Key> keys;
  REQUIRE_FALSE(table.for_each([&](const auto& key, const auto&) { keys.push_back(key); }));
  for (const auto& key : keys) {
    static_cast<void>(table.erase(key));
  }
}

void lose_flows(const std::string& pins) {
  auto maps = maps::MapSet::open(maps::Pins(pins), maps::Access::write);
  REQUIRE(maps.has_value());
  empty(maps->flows4);
  empty(maps->flows6);
  empty(maps->unassured4);
  empty(maps->unassured6);
}

struct Way {
  const char* name;
  const Leg& leg;
  const At& at;
  agent::XdpMode xdp = agent::XdpMode::off;
  agent::Forwarding forwarding = agent::Forwarding::redirect;
};

class Reconnects {
 public:
  Reconnects(const PodScene& scene, const Way& way, int family, End where, const Socket& server)
      : scene_(scene),
        from_(scene.*way.leg.from),
        family_(family),
        where_(std::move(where)),
        server_(server) {}

  /// Connects again and again, each time with a lower number than before: a server in TIME_WAIT accepts a
  /// higher one.
  void run(Left left, int times) {
    std::uint32_t sequence = 0x70000000;
    for (int round = 0; round <= times; ++round) {
      const auto client = dialer(from_, family_, sequence);
      sequence -= 0x4000000;
      const auto begin = std::chrono::steady_clock::now();
      REQUIRE(client.connect(where_) == 0);
      CHECK(std::chrono::steady_clock::now() - begin < soon);
      leave(client, left);
    }
  }

 private:
  void leave(const Socket& client, Left left) {
    auto taken = take(server_);
    REQUIRE(taken);
    REQUIRE(pass(client.fd(), taken.get(), 1000));
    REQUIRE(pass(taken.get(), client.fd(), 1000));
    if (left == Left::time_wait) {
      taken = {};
      char byte = 0;
      REQUIRE(::recv(client.fd(), &byte, 1, 0) == 0);
      return;
    }
    vanish(client);
    left_.push_back(std::move(taken));
    if (left == Left::half_open_without_flows) {
      lose_flows(scene_.lab.pins());
    }
  }

  const PodScene& scene_;
  const Host& from_;
  int family_;
  End where_;
  const Socket& server_;
  std::vector<maps::Fd> left_;
};

}  // namespace

TEST_CASE("REL-175 a client connects again to a server that still has its last connection", "[features]") {
  const auto way = GENERATE(
      Way{"tc", outside_here, node_port}, Way{"tc", outside_elsewhere, node_port},
      Way{"tc", pod_here, cluster_ip}, Way{"tc", pod_elsewhere, cluster_ip},
      Way{"XDP", outside_elsewhere, node_port, agent::XdpMode::native},
      Way{"the stack forwards", outside_elsewhere, node_port, agent::XdpMode::off, agent::Forwarding::stack});
  PodScene scene(Wiring::routed);
  scene.check_sums();
  scene.options.xdp = way.xdp;
  scene.options.forwarding = way.forwarding;
  REQUIRE(scene.attach().failure().empty());
  for (const auto* host : {&scene.outside, &scene.client, &scene.server, &scene.remote}) {
    host->run("sysctl -qw net.ipv4.tcp_timestamps=0 net.ipv4.tcp_invalid_ratelimit=0");
  }
  Writer writer(scene.lab.pins());
  for (const int family : {AF_INET, AF_INET6}) {
    const auto& known = names(family);
    const auto backend = end(known.*way.leg.backend, backend_port);
    const auto where = offer(writer, 1, way.at, known, backend, LB_TCP);
    const auto server = serve_at(scene.*way.leg.to, SOCK_STREAM, backend);
    for (const auto left : {Left::time_wait, Left::half_open, Left::half_open_without_flows}) {
      INFO(way.name << ", " << way.leg.name << ", " << (family == AF_INET ? "IPv4, " : "IPv6, ")
                    << name(left));
      Reconnects(scene, way, family, where, server).run(left, left == Left::time_wait ? 16 : 4);
    }
  }
}

}  // namespace lb::test
