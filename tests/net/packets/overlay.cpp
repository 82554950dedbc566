// SPDX-License-Identifier: Apache-2.0
// Backends behind a VXLAN device, configured like flannel's, reached from sockets, pods and external clients.
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t backend_port = 8080;

/// The addresses of the two ends of the tunnel.
const std::string& tunnel_end(int family, int node) {
  static const std::string ends[2][2] = {{"10.244.1.0", "10.244.2.0"}, {"fd00:244:1::ff", "fd00:244:2::ff"}};
  return ends[family == AF_INET ? 0 : 1][node - 1];
}

/// Adds flannel.1 on node 1 or 2, with a route to the other node's pods.
void tunnel(const Host& host, int own) {
  const int other = 3 - own;
  host.run(fmt::format("ip route del fd00:244:{}::/64", other));
  host.run(
      fmt::format("ip link add flannel.1 address 02:42:00:00:00:0{0} type vxlan id 1 dstport 8472 local "
                  "192.0.2.{0} dev eth0 "
                  "nolearning && ip link set flannel.1 up && ip address add {2}/32 dev flannel.1 && "
                  "ip address add {3}/128 dev flannel.1 nodad && "
                  "bridge fdb append 02:42:00:00:00:0{1} dev flannel.1 dst 192.0.2.{1} && "
                  "ip neighbour add {4} lladdr 02:42:00:00:00:0{1} dev flannel.1 nud permanent && "
                  "ip neighbour add {5} lladdr 02:42:00:00:00:0{1} dev flannel.1 nud permanent && "
                  "ip route replace 10.244.{1}.0/24 via {4} dev flannel.1 onlink && "
                  "ip route replace fd00:244:{1}::/64 via {5} dev flannel.1 onlink",
                  own, other, tunnel_end(AF_INET, own), tunnel_end(AF_INET6, own), tunnel_end(AF_INET, other),
                  tunnel_end(AF_INET6, other)));
}

struct OverlayScene : PodScene {
  OverlayScene() : PodScene(Wiring::routed) {
    tunnel(Host::here(), 1);
    tunnel(remote, 2);
    options.devices = {"eth0", "flannel.1"};
    options.sockets = agent::SocketScope::host;
  }
};

End offer(Writer& writer, const PodNames& known, std::string PodNames::* frontend, lb_kind kind) {
  const auto where = end(known.*frontend, port);
  writer.service(1, {{1, end(known.remote_pod, backend_port)}});
  for (const auto protocol : {LB_TCP, LB_UDP}) {
    writer.frontend(where, protocol, 1, kind);
  }
  return where;
}

/// Small and large conversations; the backend must see `source` as the client.
void converse(const Host& client, const Host& backend_host, const End& where, const End& backend,
              const std::string& source) {
  for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
    INFO((type == SOCK_STREAM ? "TCP" : "UDP"));
    const auto server = serve_at(backend_host, type, backend);
    const auto seen = talk(client, server, type, where, 3'000'000);
    REQUIRE(seen);
    CHECK(seen->address.text() == source);
  }
}

bool without_fib_source(const agent::AgentOptions& options) {
  return std::ranges::find(options.without, "fib-source") != options.without.end();
}

}  // namespace

// The kernel's VXLAN device has no native XDP: packets that arrive at eth0 with native XDP leave by tc.
TEST_CASE("backends behind a VXLAN device are reached from outside, from pods and from the node's sockets") {
  for (const auto mode : {agent::XdpMode::off, agent::XdpMode::native}) {
    OverlayScene scene;
    scene.options.xdp = mode;
    if (mode != agent::XdpMode::off) {
      scene.check_sums();
    }
    const auto report = scene.attach();
    REQUIRE(report.failure().empty() != scene.runs_xdp());
    CHECK(report.packets_text().starts_with("eth0 tcx+native, flannel.1 tcx") == scene.runs_xdp());
    Writer writer(scene.lab.pins());
    for (const int family : {AF_INET, AF_INET6}) {
      INFO((family == AF_INET ? "IPv4" : "IPv6") << (mode == agent::XdpMode::off ? " tc" : " tc and XDP"));
      const auto& known = names(family);
      const auto backend = end(known.remote_pod, backend_port);
      const auto& tunnel = tunnel_end(family, 1);
      const auto vip = offer(writer, known, &PodNames::vip, LB_LOAD_BALANCER);
      const auto rose = counter_deltas(writer, [&] {
        converse(scene.outside, scene.remote, vip, backend,
                 without_fib_source(scene.options) ? known.node : tunnel);
      });
      CHECK((rose.left_to_tc > 100) == scene.runs_xdp());
      CHECK(rose.flow_redirect > 100);
      CHECK(rose.flow_xdp + rose.new_xdp == 0);
      const auto service = offer(writer, known, &PodNames::service, LB_CLUSTER_IP);
      converse(scene.client, scene.remote, service, backend, known.client);
      converse(Host::here(), scene.remote, service, backend, tunnel);
    }
  }
}

TEST_CASE("backends behind a VXLAN device are reached from pods' sockets") {
  OverlayScene scene;
  scene.options.sockets = agent::SocketScope::all;
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  for (const int family : {AF_INET, AF_INET6}) {
    INFO((family == AF_INET ? "IPv4" : "IPv6"));
    const auto& known = names(family);
    const auto service = offer(writer, known, &PodNames::service, LB_CLUSTER_IP);
    const auto rose = counter_deltas(writer, [&] {
      converse(scene.client, scene.remote, service, end(known.remote_pod, backend_port), known.client);
    });
    CHECK(rose.socket_translated >= 2);
    CHECK(rose.new_from_pod == 0);
  }
}

}  // namespace lb::test
