// SPDX-License-Identifier: Apache-2.0
// REL-72: FINs and resets that a third host forges without the connection's sequence numbers, from either
// side, while data passes: the hosts recognise them, and the flow goes on unchanged. REL-89: one source port
// of a client is used both directly to a backend and through a service, by the client or by a forger.
#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <optional>
#include <string>
#include <utility>

#include "agent/netlink/conntrack_keepalive.hpp"
#include "tests/lib/paths.hpp"
#include "tests/net/lib/paths.hpp"
#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t backend_port = 8080;
constexpr std::size_t piece = 200'000;

void forge(const Host& host, const End& from, const End& to) {
  host.run(fmt::format("/usr/bin/python3 {} {} {} {} {}", source_path("tests/net/lib/forge.py"),
                       from.address.text(), from.port, to.address.text(), to.port));
}

bool passes_both_ways(int client, int server) {
  return pass(client, server, piece) && pass(server, client, piece);
}

/// A connection by `leg`, with forged FINs and resets from both sides between its data.
void try_to_end(const PodScene& scene, Writer& writer, int family, const Leg& leg) {
  const auto& known = names(family);
  const auto backend = end(known.*leg.backend, backend_port);
  const auto where = offer(writer, 1, load_balancer, known, backend, LB_TCP);
  const auto server = serve_at(scene.*leg.to, SOCK_STREAM, backend);
  const auto client = (scene.*leg.from).socket(family, SOCK_STREAM);
  REQUIRE(client.connect(where) == 0);
  const auto taken = take(server);
  REQUIRE(taken);
  REQUIRE(passes_both_ways(client.fd(), taken.get()));
  const End asker{end(known.outside, 0).address, client.name()->port};
  const auto rose = counter_deltas(writer, [&] {
    for (int round = 0; round < 5; ++round) {
      forge(scene.*leg.from, asker, where);
      CHECK(passes_both_ways(client.fd(), taken.get()));
      forge(scene.*leg.to, backend, peer_of(taken.get()).value());
      CHECK(passes_both_ways(client.fd(), taken.get()));
    }
  });
  CHECK(rose.new_local + rose.new_remote + rose.new_xdp + rose.midstream == 0);
  CHECK(rose.flow_stack + rose.flow_redirect + rose.flow_xdp > 500);
  CHECK((rose.flow_xdp > 0) == (scene.runs_xdp() && leg.to == &PodScene::remote));
}

/// A client's connection or UDP flow with one source port, to a service or directly to its backend.
struct Line {
  Socket client;
  End where;
  maps::Fd taken;  ///< the server's socket of a TCP connection

  /// Sends words both ways; returns the client's address that the server saw.
  [[nodiscard]] std::optional<End> speaks(const Socket& server) const {
    if (taken) {
      return passes_both_ways(client.fd(), taken.get()) ? peer_of(taken.get()) : std::nullopt;
    }
    if (client.send("words") != 0) {
      return std::nullopt;
    }
    const auto seen = echo_once(server);
    const auto answer = client.receive();
    return answer && answer->words == "words" && answer->from == where ? seen : std::nullopt;
  }
};

Line begin(const Host& host, const Socket& server, int type, std::uint16_t port, const End& where) {
  const bool ipv4 = where.address.family() == k8s::Family::ipv4;
  Line line{host.socket(ipv4 ? AF_INET : AF_INET6, type), where, {}};
  REQUIRE(line.client.bind(end(ipv4 ? "0.0.0.0" : "::", port)) == 0);
  REQUIRE(line.client.connect(where) == 0);
  if (type == SOCK_STREAM) {
    line.taken = take(server);
    REQUIRE(line.taken);
  }
  return line;
}

struct Case {
  const Leg& leg;
  const At& at;
};

/// The cases in which the backend's replies to the client's direct flow pass the node.
constexpr std::array cases = {Case{outside_here, load_balancer}, Case{pod_here, cluster_ip},
                              Case{pod_elsewhere, cluster_ip}};

/// A service with one backend, a client that reaches both, and an unused source port.
struct Offered {
  Offered(const PodScene& scene, Writer& writer, const Case& test_case, int family, int type)
      : backend(end(names(family).*test_case.leg.backend, backend_port)),
        service(
            offer(writer, 1, test_case.at, names(family), backend, type == SOCK_STREAM ? LB_TCP : LB_UDP)),
        server(serve_at(scene.*test_case.leg.to, type, backend)),
        from(scene.*test_case.leg.from),
        client(test_case.leg.from == &PodScene::outside ? names(family).outside : names(family).client) {
    static std::uint16_t last = 20'000;
    port = ++last;
  }

  End backend, service;
  Socket server;
  const Host& from;
  std::string client;
  std::uint16_t port = 0;
};

template <class Test>
void for_each_way(Test test) {
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  for (const int family : {AF_INET, AF_INET6}) {
    REQUIRE_FALSE(agent::keep_tracking(family, "ours"));
  }
  for (const int family : {AF_INET, AF_INET6}) {
    for (const auto type : {SOCK_STREAM, SOCK_DGRAM}) {
      for (const auto& test_case : cases) {
        INFO((family == AF_INET ? "IPv4, " : "IPv6, ")
             << (type == SOCK_STREAM ? "TCP, " : "UDP, ") << test_case.leg.name);
        test(writer, Offered(scene, writer, test_case, family, type), type);
      }
    }
  }
}

/// The second flow gets another source port, and the first keeps its own.
void share_port(Writer& writer, const Offered& offered, int type, bool direct_first) {
  const auto& [backend, service, server, from, client, port] = offered;
  const auto first = begin(from, server, type, port, direct_first ? backend : service);
  const auto kept = first.speaks(server);
  REQUIRE(kept);
  CHECK(kept->port == port);
  std::optional<Line> second;
  const auto rose = counter_deltas(writer, [&] {
    second.emplace(begin(from, server, type, port, direct_first ? service : backend));
    for (int round = 0; round < 3; ++round) {
      const auto other = second->speaks(server);
      REQUIRE(other);
      CHECK(other->port != port);
      CHECK(other->address == kept->address);
      CHECK(first.speaks(server) == kept);
    }
  });
  CHECK(rose.port_collision == 1);
  CHECK(rose.new_direct == (direct_first ? 0 : 1));
}

}  // namespace

TEST_CASE("REL-89 one port straight to a backend and then through a service", "[features]") {
  for_each_way(
      [](Writer& writer, const Offered& offered, int type) { share_port(writer, offered, type, true); });
}

TEST_CASE("REL-89 one port through a service and then straight to a backend") {
  for_each_way(
      [](Writer& writer, const Offered& offered, int type) { share_port(writer, offered, type, false); });
}

TEST_CASE("REL-89 forged packets take no tuple from a client that speaks straight to a backend",
          "[features]") {
  for_each_way([&](Writer& writer, const Offered& offered, int type) {
    const auto& [backend, service, server, from, client, port] = offered;
    const auto direct = begin(from, server, type, port, backend);
    const auto kept = direct.speaks(server);
    REQUIRE(kept);
    const auto rose = counter_deltas(writer, [&] {
      for (int round = 0; round < 3; ++round) {
        if (type == SOCK_STREAM) {
          from.run(fmt::format("/usr/bin/python3 {} {} {} {} {} ack", source_path("tests/net/lib/forge.py"),
                               client, port, service.address.text(), service.port));
        } else {
          const auto forger =
              from.socket(backend.address.family() == k8s::Family::ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM);
          REQUIRE(forger.bind(end(client, port)) == 0);
          REQUIRE(forger.send_to(service, "forged") == 0);
          const auto seen = server.receive();
          REQUIRE(seen);
          CHECK(seen->from.port != port);
        }
        CHECK(direct.speaks(server) == kept);
      }
    });
    CHECK(rose.port_collision > 0);
  });
}

TEST_CASE("REL-164 a direct connection that is tracked in another zone is not seen", "[features]") {
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  const bool in_zone = GENERATE(false, true);
  INFO((in_zone ? "in zone 7" : "in the default zone"));
  for (const int family : {AF_INET, AF_INET6}) {
    REQUIRE_FALSE(agent::keep_tracking(family, "ours"));
  }
  if (in_zone) {
    shell(
        "nft 'table inet zones { chain in { type filter hook prerouting priority raw; ct zone set 7; }; "
        "chain out { type filter hook output priority raw; ct zone set 7; }; }'");
  }
  for (const int family : {AF_INET, AF_INET6}) {
    const Offered offered(scene, writer, cases.front(), family, SOCK_DGRAM);
    const auto direct = begin(offered.from, offered.server, SOCK_DGRAM, offered.port, offered.backend);
    const auto kept = direct.speaks(offered.server);
    REQUIRE(kept);
    const auto forger = offered.from.socket(family, SOCK_DGRAM);
    REQUIRE(forger.bind(end(offered.client, offered.port)) == 0);
    REQUIRE(forger.send_to(offered.service, "forged") == 0);
    const auto seen = offered.server.receive();
    REQUIRE(seen);
    CHECK((seen->from.port == offered.port) == in_zone);
    CHECK((direct.speaks(offered.server) == kept) != in_zone);
  }
}

TEST_CASE("REL-72 forged resets and ends change nothing during a transfer") {
  for (const auto mode : {agent::XdpMode::off, agent::XdpMode::native}) {
    PodScene scene(Wiring::routed);
    scene.check_sums();
    scene.options.xdp = mode;
    REQUIRE(scene.attach().failure().empty());
    Writer writer(scene.lab.pins());
    for (const int family : {AF_INET, AF_INET6}) {
      for (const auto& leg : {outside_here, outside_elsewhere}) {
        INFO((mode == agent::XdpMode::off ? "tc, " : "XDP, ")
             << (family == AF_INET ? "IPv4, " : "IPv6, ") << leg.name);
        try_to_end(scene, writer, family, leg);
      }
    }
  }
}

}  // namespace lb::test
