// SPDX-License-Identifier: Apache-2.0
// Asymmetric routes: a client's packets arrive by one uplink, and packets to the client leave by another. If
// rp_filter is 0 or 2 the kernel serves such clients, so Sluice must, too.
#include <fmt/format.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>

#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t backend_port = 8080;

const char* client_of(int family) { return family == AF_INET ? "198.51.100.77" : "2001:db8:77::77"; }

/// A client whose packets reach eth0 of the node by the wire, but the node's only route to the client is by
/// eth1.
struct TwoWays : PodScene {
  TwoWays(agent::XdpMode mode, int rp_filter) : PodScene(Wiring::routed) {
    shell("ip link add eth1 type veth peer name eth1 netns " + outside.space().path());
    filter_sources(outside, 0);
    filter_sources(Host::here(), rp_filter);
    outside.run(
        "ethtool -K eth1 gro on tx off >/dev/null && ip link set eth1 up && "
        "ip address add 198.18.0.2/24 dev eth1 && "
        "ip address add 2001:db8:18::2/64 dev eth1 nodad && ip address add 198.51.100.77/32 dev lo && "
        "ip address add 2001:db8:77::77/128 dev lo nodad && "
        "ip route replace default via 192.0.2.1 src 198.51.100.77 && "
        "ip route replace default via 2001:db8:1::1 src 2001:db8:77::77");
    shell(
        "ethtool -K eth1 gro on >/dev/null && ip link set eth1 up && "
        "ip address add 198.18.0.1/24 dev eth1 && ip address add 2001:db8:18::1/64 dev eth1 nodad && "
        "ip route delete default && ip -6 route delete default && "
        "ip route add 198.51.100.77 via 198.18.0.2 dev eth1 && "
        "ip route add 2001:db8:77::77 via 2001:db8:18::2 dev eth1");
    check_sums();
    options.devices = {"eth0", "eth1"};
    options.xdp = mode;
  }

 private:
  static void filter_sources(const Host& host, int rp_filter) {
    host.run(
        fmt::format("for each in /proc/sys/net/ipv4/conf/*/rp_filter; do echo {} >$each; done", rp_filter));
  }
};

}  // namespace

TEST_CASE("REL-94 clients that no route leads to by the uplink that they come by are served", "[features]") {
  const int rp_filter = GENERATE(0, 2);
  const auto mode = GENERATE(agent::XdpMode::off, agent::XdpMode::native);
  TwoWays scene(mode, rp_filter);
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  for (const int family : {AF_INET, AF_INET6}) {
    const auto& known = names(family);
    for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
      for (const bool here : {false, true}) {
        INFO((mode == agent::XdpMode::off ? "tc" : "XDP")
             << " rp_filter " << rp_filter << (family == AF_INET ? " IPv4" : " IPv6")
             << (type == SOCK_STREAM ? " TCP" : " UDP") << (here ? " to a pod here" : " to a pod elsewhere"));
        const auto backend = end(here ? known.server : known.remote_pod, backend_port);
        const auto where = end(known.vip, port);
        writer.service(1, {{1, backend, LB_YES, here ? LB_SAME_NODE : LB_ELSEWHERE}});
        writer.frontend(where, type == SOCK_STREAM ? LB_TCP : LB_UDP, 1, LB_LOAD_BALANCER);
        const auto server = serve_at(here ? scene.server : scene.remote, type, backend);
        std::optional<End> seen;
        const auto rose = counter_deltas(writer, [&] { seen = talk(scene.outside, server, type, where); });
        REQUIRE(seen);
        CHECK(rose.no_route == 0);
        // A remote backend sees the node's address; the node forwards both directions itself.
        CHECK((seen->address.text() == client_of(family)) == here);
        CHECK((rose.new_remote + rose.new_xdp == 1) == !here);
      }
    }
  }
}

}  // namespace lb::test
