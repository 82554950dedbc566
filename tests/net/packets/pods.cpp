// SPDX-License-Identifier: Apache-2.0
// Packets of pods without socket programs: served at the host's ends of their devices, routed and bridged,
// both families, TCP and UDP.
#include "agent/attach/pods.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cerrno>
#include <set>
#include <vector>

#include "agent/attach/detach.hpp"
#include "tests/net/lib/hooks.hpp"
#include "tests/net/lib/pod_scene.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t backend_port = 8080;

struct Kind {
  int family;
  int type;
};

const std::vector<Kind> kinds = {
    {AF_INET, SOCK_STREAM}, {AF_INET, SOCK_DGRAM}, {AF_INET6, SOCK_STREAM}, {AF_INET6, SOCK_DGRAM}};

lb_protocol protocol_of(const Kind& kind) { return kind.type == SOCK_STREAM ? LB_TCP : LB_UDP; }

Socket serve(const Host& host, const Kind& kind, const std::string& address) {
  auto server = host.socket(kind.family, kind.type);
  REQUIRE(server.bind(end(address, backend_port)) == 0);
  if (kind.type == SOCK_STREAM) {
    REQUIRE(server.listen() == 0);
  }
  return server;
}

/// Writes a service of this kind with one backend at `address`; returns its ClusterIP.
End offer(Writer& writer, const Kind& kind, const std::string& address) {
  const auto where = end(names(kind.family).service, port);
  writer.service(1, {{1, end(address, backend_port)}});
  writer.frontend(where, protocol_of(kind), 1);
  return where;
}

/// Turns on session affinity for service 1.
void remember_clients(const std::string& pins) {
  auto maps = maps::MapSet::open(maps::Pins(pins), maps::Access::write);
  REQUIRE(maps.has_value());
  auto service = maps->services.load(1);
  service.affinity_seconds = 100;
  maps->services.store(1, service);
}

/// Runs the test for all kinds and both wirings; each wiring has its own scene.
template <class Test>
void for_each(Test test) {
  for (const auto wiring : {Wiring::routed, Wiring::bridged}) {
    PodScene scene(wiring);
    REQUIRE(scene.attach().pod_failure().empty());
    Writer writer(scene.lab.pins());
    for (const auto& kind : kinds) {
      INFO((wiring == Wiring::routed ? "routed" : "bridged")
           << (kind.family == AF_INET ? " IPv4" : " IPv6") << (kind.type == SOCK_STREAM ? " TCP" : " UDP"));
      test(scene, writer, kind);
    }
  }
}

}  // namespace

TEST_CASE("a pod reaches a backend on its node through a ClusterIP and keeps its address") {
  for_each([](const PodScene& scene, Writer& writer, const Kind& kind) {
    const auto& known = names(kind.family);
    const auto server = serve(scene.server, kind, known.server);
    const auto where = offer(writer, kind, known.server);
    std::optional<End> seen;
    const auto rose =
        counter_deltas(writer, [&] { seen = exchange(scene.client, server, kind.type, where); });
    REQUIRE(seen);
    CHECK(text({seen->address, 0}) == text(end(known.client, 0)));
    CHECK(rose.new_from_pod == 1);
    CHECK(rose.assured == 1);
  });
}

TEST_CASE("a pod reaches a backend on another node through a ClusterIP") {
  for_each([](const PodScene& scene, Writer& writer, const Kind& kind) {
    const auto& known = names(kind.family);
    const auto server = serve(scene.remote, kind, known.remote);
    const auto where = offer(writer, kind, known.remote);
    const auto seen = exchange(scene.client, server, kind.type, where);
    REQUIRE(seen);
    CHECK(text({seen->address, 0}) == text(end(known.client, 0)));
  });
}

TEST_CASE("a pod that is its own backend sees the node (SEM-39)") {
  for_each([](const PodScene& scene, Writer& writer, const Kind& kind) {
    const auto& known = names(kind.family);
    const auto server = serve(scene.client, kind, known.client);
    const auto where = offer(writer, kind, known.client);
    std::optional<End> seen;
    const auto rose =
        counter_deltas(writer, [&] { seen = exchange(scene.client, server, kind.type, where); });
    REQUIRE(seen);
    CHECK_FALSE(seen->address == end(known.client, 0).address);
    CHECK(rose.new_hairpin == 1);
    CHECK(rose.assured == 1);
  });
}

TEST_CASE("a pod reaches a node port on its node's address") {
  for_each([](const PodScene& scene, Writer& writer, const Kind& kind) {
    const auto& known = names(kind.family);
    const auto server = serve(scene.server, kind, known.server);
    offer(writer, kind, known.server);
    writer.address(known.node, LB_NODE_PORT_ADDRESS);
    const auto where = end(known.node, 30080);
    writer.node_port(where.address, where.port, protocol_of(kind), 1);
    CHECK(exchange(scene.client, server, kind.type, where));
  });
}

/// The error that the socket gets for its message. The timeout is no limit under test: a slow machine keeps
/// it.
int refusal(const Socket& client) {
  constexpr timeval long_enough{30, 0};
  ::setsockopt(client.fd(), SOL_SOCKET, SO_RCVTIMEO, &long_enough, sizeof(long_enough));
  char word = 0;
  return ::recv(client.fd(), &word, sizeof(word), 0) < 0 ? errno : 0;
}

// The refusal arrives within the client's own call: for TCP a reset, because the kernel ignores an ICMP error
// for a socket that is in use by a call. It is the reply to the first SYN: a second SYN would be counted,
// too.
TEST_CASE("a service without endpoints refuses a pod at once") {
  for_each([](const PodScene& scene, Writer& writer, const Kind& kind) {
    const auto where = end(names(kind.family).service, port);
    writer.service(1, {});
    writer.frontend(where, protocol_of(kind), 1);
    const auto client = scene.client.socket(kind.family, kind.type);
    const auto rose = counter_deltas(writer, [&] {
      if (kind.type == SOCK_STREAM) {
        CHECK(client.connect(where) == ECONNREFUSED);
      } else {
        REQUIRE(client.connect(where) == 0);
        REQUIRE(client.send("words") == 0);
        CHECK(refusal(client) == ECONNREFUSED);
      }
    });
    CHECK(rose.no_backend_reject == 1);
  });
}

TEST_CASE("a pod keeps its backend across connections by session affinity") {
  for_each([](const PodScene& scene, Writer& writer, const Kind& kind) {
    const auto& known = names(kind.family);
    const auto server = serve(scene.server, kind, known.server);
    const auto where = offer(writer, kind, known.server);
    remember_clients(scene.lab.pins());
    REQUIRE(exchange(scene.client, server, kind.type, where));
    // Now most slots have a backend that does not answer; only affinity leads to the first.
    std::vector<BackendSpec> backends = {{1, end(known.server, backend_port)}};
    for (std::uint32_t id = 2; id <= 8; ++id) {
      backends.push_back({id, end(known.remote, 9)});
    }
    writer.service(1, backends);
    remember_clients(scene.lab.pins());
    for (int time = 0; time < 10; ++time) {
      CHECK(exchange(scene.client, server, kind.type, where));
    }
  });
}

TEST_CASE("a pod's device that appears later is served, and one that goes leaves nothing", "[features]") {
  for (const auto wiring : {Wiring::routed, Wiring::bridged}) {
    PodScene scene(wiring);
    CHECK(scene.attach().pods == 2);
    Writer writer(scene.lab.pins());
    const Host late;
    scene.connect_pod(late, "pods4", 4);
    const auto report = scene.attach();
    CHECK(report.pods == 3);
    CHECK(report.pod_hooks.size() == 2);
    const auto& known = names(AF_INET);
    const auto server = serve(scene.server, kinds.front(), known.server);
    const auto where = offer(writer, kinds.front(), known.server);
    CHECK(exchange(late, server, SOCK_STREAM, where));
    CHECK(links(scene.lab).size() == 8);
    shell("ip link del pods4");
    CHECK(scene.attach().pods == 2);
    CHECK(links(scene.lab).size() == 6);
  }
}

TEST_CASE("SEM-36 a load balancer's address is served whether or not a device of the node has it") {
  const std::string device = GENERATE("", "lo");
  PodScene scene(Wiring::routed);
  scene.options.sockets = agent::SocketScope::host;
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  const auto node = Host::here();
  for (const auto& kind : kinds) {
    const auto& known = names(kind.family);
    const auto vip = end(known.vip, port);
    if (!device.empty()) {
      shell(fmt::format("ip address replace {} dev {}", known.vip, device));
    }
    const auto server = serve(scene.server, kind, known.server);
    writer.service(1, {{1, end(known.server, backend_port)}});
    writer.frontend(vip, protocol_of(kind), 1, LB_LOAD_BALANCER);
    INFO(text(vip) << (device.empty() ? " on no device" : " on " + device)
                   << (kind.type == SOCK_STREAM ? " by TCP" : " by UDP"));
    CHECK(exchange(scene.outside, server, kind.type, vip));
    CHECK(exchange(scene.client, server, kind.type, vip));
    CHECK(exchange(node, server, kind.type, vip));
  }
}

TEST_CASE("without TCX pods are served by clsact filters") {
  PodScene scene(Wiring::routed);
  scene.options.without = {"tcx"};
  CHECK(scene.attach().packets_text() == "eth0 clsact, 2 pods clsact");
  Writer writer(scene.lab.pins());
  const auto& known = names(AF_INET);
  const auto server = serve(scene.server, kinds.front(), known.server);
  CHECK(exchange(scene.client, server, SOCK_STREAM, offer(writer, kinds.front(), known.server)));
  shell("tc filter show dev pods2 ingress | grep -q lb_pod_in");
  scene.options.pod_devices = {"pods3"};
  scene.datapath.reset();
  CHECK(scene.attach().pods == 1);
  CHECK_THAT(shell_output("tc qdisc show dev pods2"), !Catch::Matchers::ContainsSubstring("clsact"));
  agent::detach_all(maps::Pins(scene.lab.pins()));
}

}  // namespace lb::test
