// SPDX-License-Identifier: Apache-2.0
// Addresses that a tenant's Service claims meet only what begins something, on real sockets and tunnels
// (docs/threats.md), and what the node itself sends without a socket call is served (SEM-140).
#include <fmt/format.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t backend_port = 8080;
constexpr std::uint16_t victim_port = 5000;
constexpr std::uint32_t tenant = 9;

/// Without a rule that asks for it, the kernel tracks nothing in a new network namespace.
void track_connections() {
  shell(
      "nft 'add table inet lb_test; add chain inet lb_test out { type filter hook output priority 0; }; "
      "add rule inet lb_test out ct state new accept'");
}

/// Whether the programs look up conntrack: SLUICE_WITHOUT lists what this run does without.
bool asks_conntrack() {
  const auto* const without = std::getenv("SLUICE_WITHOUT");
  return without == nullptr || std::string_view(without).find("ct-lookup") == std::string_view::npos;
}

void claim(Writer& writer, const End& where) {
  for (const auto protocol : {LB_TCP, LB_UDP}) {
    writer.frontend(where, protocol, tenant, LB_EXTERNAL_IP);
  }
}

std::uint64_t opened(const lb_stats& rose) {
  return rose.new_local + rose.new_remote + rose.new_from_pod + rose.new_direct;
}

std::string family_name(int family) { return family == AF_INET ? "IPv4" : "IPv6"; }

/// A VXLAN device of the node to `peer`, and its inner address.
void tunnel(const Host& host, const std::string& device, const std::string& own, const std::string& peer,
            const std::string& inner) {
  host.run(
      fmt::format("ip link add {0} type vxlan id 7 dstport 8472 local {1} remote {2} dev eth0 && "
                  "ip link set {0} mtu 1400 up && ip address add {3} dev {0}",
                  device, own, peer, inner));
}

}  // namespace

TEST_CASE(
    "SEM-140 the node's own sockets without socket hooks reach services: TCP and UDP, backends elsewhere and "
    "here") {
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().pod_failure().empty());
  track_connections();
  Writer writer(scene.lab.pins());
  const auto node = Host::here();
  for (const int family : {AF_INET, AF_INET6}) {
    const auto& known = names(family);
    writer.address(known.node, LB_NODE_PORT_ADDRESS);
    for (const bool here : {false, true}) {
      const auto backend = end(here ? known.server : known.remote_pod, backend_port);
      const auto number = static_cast<std::uint16_t>(port + (here ? 1 : 0));
      writer.service(number, {{number, backend}});
      for (const auto& where : {end(known.service, number), end(known.vip, number)}) {
        for (const auto protocol : {LB_TCP, LB_UDP}) {
          writer.frontend(where, protocol, number,
                          where.address.text() == known.service ? LB_CLUSTER_IP : LB_LOAD_BALANCER);
        }
        for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
          INFO(family_name(family) << (here ? ", here, " : ", elsewhere, ") << text(where)
                                   << (type == SOCK_STREAM ? " TCP" : " UDP"));
          const auto server = serve_at(here ? scene.server : scene.remote, type, backend);
          std::optional<End> seen;
          const auto rose =
              counter_deltas(writer, [&] { seen = talk(node, server, type, where, 3'000'000); });
          // A datagram that may be an answer passes where nothing tells.
          const bool served =
              type == SOCK_STREAM || where.address.text() == known.service || asks_conntrack();
          CHECK(seen.has_value() == served);
          CHECK((rose.new_remote > 0) == served);
        }
      }
    }
  }
}

TEST_CASE("SEM-140 a tunnel of the kernel to a service reaches the backend's tunnel") {
  const int family = GENERATE(AF_INET, AF_INET6);
  INFO(family_name(family));
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().pod_failure().empty());
  track_connections();
  Writer writer(scene.lab.pins());
  const auto& known = names(family);
  writer.address(known.node, LB_NODE_PORT_ADDRESS);
  writer.service(port, {{port, end(known.remote, 8472)}});
  writer.frontend(end(known.service, 8472), LB_UDP, port, LB_CLUSTER_IP);
  tunnel(Host::here(), "tunnel", known.node, known.service, "10.7.0.1/24");
  tunnel(scene.remote, "tunnel", known.remote, known.node, "10.7.0.2/24");
  const auto rose =
      counter_deltas(writer, [&] { CHECK_NOTHROW(shell("ping -c 3 -i 0.2 -W 3 10.7.0.2 >/dev/null")); });
  CHECK(rose.new_remote > 0);
}

TEST_CASE("REL-145 row egress: another node's tunnel stays, whoever claims its end") {
  const bool tracked = GENERATE(true, false);
  const int family = GENERATE(AF_INET, AF_INET6);
  INFO(family_name(family) << (tracked ? ", tracked" : ", not tracked"));
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().pod_failure().empty());
  if (tracked) {
    track_connections();
  }
  Writer writer(scene.lab.pins());
  const auto& known = names(family);
  writer.address(known.node, LB_NODE_PORT_ADDRESS);
  tunnel(Host::here(), "tunnel", known.node, known.remote, "10.7.0.1/24");
  tunnel(scene.remote, "tunnel", known.remote, known.node, "10.7.0.2/24");
  writer.service(tenant, {});
  claim(writer, end(known.remote, 8472));
  CHECK_NOTHROW(shell("ping -c 3 -i 0.2 -W 3 10.7.0.2 >/dev/null"));
  writer.service(tenant, {{tenant, end(known.server, backend_port)}});
  const auto rose =
      counter_deltas(writer, [&] { CHECK_NOTHROW(shell("ping -c 3 -i 0.2 -W 3 10.7.0.2 >/dev/null")); });
  CHECK(opened(rose) == 0);
}

TEST_CASE("REL-145 row egress: a pod's and the node's answers leave for a claimed address") {
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().pod_failure().empty());
  track_connections();
  Writer writer(scene.lab.pins());
  const auto node = Host::here();
  for (const int family : {AF_INET, AF_INET6}) {
    const auto& known = names(family);
    writer.address(known.node, LB_NODE_PORT_ADDRESS);
    const auto victim = end(known.remote, victim_port);
    claim(writer, victim);
    for (const bool endpoint : {false, true}) {
      writer.service(tenant, endpoint ? std::vector<BackendSpec>{{tenant, end(known.client, backend_port)}}
                                      : std::vector<BackendSpec>{});
      for (const auto* host : std::initializer_list<const Host*>{&scene.server, &node}) {
        INFO(family_name(family) << (host == &node ? ", the node" : ", a pod")
                                 << (endpoint ? ", with an endpoint" : ""));
        // Nothing tells a pod's answer, which arrives by its device, from a request then (docs/threats.md).
        if (host != &node && !asks_conntrack()) {
          continue;
        }
        const auto where = end(host == &node ? known.node : known.server, backend_port);
        const auto server = serve_at(*host, SOCK_DGRAM, where);
        const auto client = scene.remote.socket(family, SOCK_DGRAM);
        REQUIRE(client.bind(victim) == 0);
        REQUIRE(client.send_to(where, "words") == 0);
        CHECK(echo_once(server) == victim);
        const auto answer = client.receive();
        CHECK((answer && answer->words == "words" && answer->from == where));
      }
    }
  }
}

TEST_CASE(
    "REL-146 row ingress: what sockets are translated to is not translated again, whoever claims the "
    "backend's address") {
  PodScene scene(Wiring::routed);
  scene.options.sockets = agent::SocketScope::all;
  REQUIRE(scene.attach().pod_failure().empty());
  track_connections();
  Writer writer(scene.lab.pins());
  const auto node = Host::here();
  for (const int family : {AF_INET, AF_INET6}) {
    const auto& known = names(family);
    writer.address(known.node, LB_NODE_PORT_ADDRESS);
    const auto backend = end(known.remote_pod, backend_port);
    const auto where = end(known.service, port);
    writer.service(port, {{port, backend}});
    for (const auto protocol : {LB_TCP, LB_UDP}) {
      writer.frontend(where, protocol, port, LB_CLUSTER_IP);
    }
    writer.service(tenant, {{tenant, end(known.server, backend_port)}});
    claim(writer, backend);
    for (const auto* host : std::initializer_list<const Host*>{&node, &scene.client}) {
      for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
        INFO(family_name(family) << (host == &node ? ", the node" : ", a pod")
                                 << (type == SOCK_STREAM ? ", TCP" : ", UDP"));
        const auto server = serve_at(scene.remote, type, backend);
        std::optional<End> seen;
        const auto rose = counter_deltas(writer, [&] { seen = talk(*host, server, type, where); });
        CHECK(seen);
        CHECK(opened(rose) == 0);
      }
    }
  }
}

}  // namespace lb::test
