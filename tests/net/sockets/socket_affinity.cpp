// SPDX-License-Identifier: Apache-2.0
// SEM-38 at the socket hooks: the client is a network namespace; every new flow renews the entry; another
// backend is chosen after the timeout, if the backend is no longer eligible, and for another client.
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "agent/datapath/datapath.hpp"
#include "tests/net/lib/lab.hpp"
#include "tests/net/lib/pod_scene.hpp"
#include "tests/net/lib/scene.hpp"
#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint32_t web = 7;
constexpr std::uint16_t service_port = 80;
constexpr std::uint16_t backend_port = 8080;
constexpr std::uint32_t seconds = 100;

struct Kind {
  const char* name;
  int family;
  int type;
  const char* frontend;
  const char* balancer;
  std::array<const char*, 2> backends;
};

const std::vector<Kind> kinds = {
    {"TCP, IPv4", AF_INET, SOCK_STREAM, "10.96.0.1", "198.19.0.1", {"10.1.0.1", "10.1.0.2"}},
    {"UDP, IPv4", AF_INET, SOCK_DGRAM, "10.96.0.1", "198.19.0.1", {"10.1.0.1", "10.1.0.2"}},
    {"TCP, IPv6", AF_INET6, SOCK_STREAM, "fd00:96::1", "2001:db8:ffff::1", {"fd00:1::1", "fd00:1::2"}},
    {"UDP, IPv6", AF_INET6, SOCK_DGRAM, "fd00:96::1", "2001:db8:ffff::1", {"fd00:1::1", "fd00:1::2"}},
};

/// A network namespace, which counts as one client, with a listener at each backend's address.
struct Place {
  Place(const Kind& kind, Host space) : host(std::move(space)) {
    for (const auto* address : kind.backends) {
      const bool six = kind.family == AF_INET6;
      host.run(fmt::format("ip address add {}/{} dev lo", address, six ? "128 nodad" : "32"));
      if (six) {
        host.run(await_local_route(address));
      }
      servers.push_back(serve_at(host, kind.type, end(address, backend_port)));
    }
  }

  Host host;
  std::vector<Socket> servers;
};

class Stage {
 public:
  explicit Stage(const Kind& kind) : kind_(kind), here(kind, Host::here()), there(kind, Host()) {
    auto options = lab_.options();
    options.sockets = agent::SocketScope::all;
    datapath_.emplace(agent::Datapath::open(options));
    REQUIRE(datapath_->attach().failure().empty());
    writer_.emplace(lab_.pins());
    const auto protocol = kind.type == SOCK_STREAM ? LB_TCP : LB_UDP;
    serve(0);
    writer_->frontend(end(kind.frontend, service_port), protocol, web);
    writer_->frontend(end(kind.balancer, service_port), protocol, web, LB_LOAD_BALANCER);
  }

  /// Makes `backend` the service's only backend; the other one keeps serving its existing flows.
  void serve(std::uint32_t backend) {
    writer_->service(web, {{backend + 1, end(kind_.backends.at(backend), backend_port)}});
    auto maps = open();
    auto service = maps.services.load(web);
    service.affinity_seconds = seconds;
    maps.services.store(web, service);
  }

  /// Makes the backend ineligible for all flows, existing ones too.
  void retire(std::uint32_t backend) {
    auto maps = open();
    auto value = maps.backends.load(backend + 1);
    value.serving = value.in_cluster = value.in_local = LB_NO;
    maps.backends.store(backend + 1, value);
  }

  /// Makes all entries older by `time`.
  void pass(std::uint32_t time) {
    auto maps = open();
    std::vector<std::pair<lb_affinity_key, lb_affinity>> all;
    REQUIRE_FALSE(
        maps.affinity.for_each([&](const auto& key, const auto& value) { all.emplace_back(key, value); }));
    REQUIRE_FALSE(all.empty());
    for (auto& [key, value] : all) {
      value.used -= time;
      REQUIRE_FALSE(maps.affinity.put(key, value, maps::Put::any));
    }
  }

  /// The backend that a new socket gets; -1: none.
  [[nodiscard]] int ask(const Place& place) const { return ask(place, kind_.frontend); }
  [[nodiscard]] int ask_balancer(const Place& place) const { return ask(place, kind_.balancer); }

 private:
  [[nodiscard]] int ask(const Place& place, const char* frontend) const {
    const auto client = place.host.socket(kind_.family, kind_.type);
    if (client.connect(end(frontend, service_port)) != 0) {
      return -1;
    }
    if (kind_.type == SOCK_DGRAM && client.send("words") != 0) {
      return -1;
    }
    std::array<pollfd, 2> waits = {{{place.servers[0].fd(), POLLIN, 0}, {place.servers[1].fd(), POLLIN, 0}}};
    if (::poll(waits.data(), waits.size(), 1000) != 1) {
      return -1;
    }
    const int heard = waits[0].revents != 0 ? 0 : 1;
    const auto& server = place.servers.at(static_cast<std::size_t>(heard));
    kind_.type == SOCK_STREAM ? static_cast<void>(server.accept()) : static_cast<void>(server.receive());
    return heard;
  }

  [[nodiscard]] maps::MapSet open() const {
    auto maps = maps::MapSet::open(maps::Pins(lab_.pins()), maps::Access::write);
    REQUIRE(maps.has_value());
    return std::move(*maps);
  }

  Kind kind_;
  Lab lab_;
  std::optional<agent::Datapath> datapath_;
  std::optional<Writer> writer_;

 public:
  Place here, there;
};

template <class Test>
void for_each(Test test) {
  for (const auto& kind : kinds) {
    INFO(kind.name);
    Stage stage(kind);
    test(stage);
  }
}

}  // namespace

TEST_CASE("SEM-38 the sockets of a network namespace come back to their backend, those of another need not") {
  for_each([](Stage& stage) {
    CHECK(stage.ask(stage.here) == 0);
    stage.serve(1);
    CHECK(stage.ask(stage.here) == 0);
    CHECK(stage.ask(stage.there) == 1);
    CHECK(stage.ask_balancer(stage.here) == 0);  // one entry for all addresses of the port
    CHECK(stage.ask_balancer(stage.there) == 1);
  });
}

TEST_CASE("SEM-38 each new socket restarts the affinity timeout, and then it expires") {
  for_each([](Stage& stage) {
    CHECK(stage.ask(stage.here) == 0);
    stage.serve(1);
    for (int round = 0; round < 3; ++round) {
      stage.pass(60);
      CHECK(stage.ask(stage.here) == 0);
    }
    stage.pass(seconds);
    CHECK(stage.ask(stage.here) == 1);
  });
}

TEST_CASE("SEM-38 a socket is not given a backend that is not eligible any more") {
  for_each([](Stage& stage) {
    CHECK(stage.ask(stage.here) == 0);
    stage.serve(1);
    stage.retire(0);
    CHECK(stage.ask(stage.here) == 1);
    stage.serve(0);
    CHECK(stage.ask(stage.here) == 1);  // the entry was overwritten
  });
}

}  // namespace lb::test
