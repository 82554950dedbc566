// SPDX-License-Identifier: Apache-2.0
// Clients behind a route that adds headers of its own (ip route ... encap seg6): no program can send by it,
// so the stack sends the replies, and those of backends here have its headers by the time they pass egress.
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
constexpr std::size_t within_one_packet =
    1000;  // the kernel tells no sender that the route's headers are too much

const char* client_address(int family) { return family == AF_INET ? "198.51.100.77" : "2001:db8:77::77"; }

/// The node's only route to a client has a seg6 encapsulation, which the client's host removes.
struct BehindSegment : PodScene {
  explicit BehindSegment(agent::XdpMode mode) : PodScene(Wiring::routed) {
    const std::string no_filter =
        "for each in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$each; done && ";
    outside.run(
        no_filter +
        "for each in /proc/sys/net/ipv6/conf/*/seg6_enabled; do echo 1 >$each; done && "
        "ip address add 2001:db8:1::aa/128 dev eth0 nodad && ip address add 198.51.100.77/32 dev lo && "
        "ip address add 2001:db8:77::77/128 dev lo nodad && "
        "ip route replace default via 192.0.2.1 src 198.51.100.77 && "
        "ip route replace default via 2001:db8:1::1 src 2001:db8:77::77");
    shell(no_filter +
          "ip route add 198.51.100.77/32 encap seg6 mode encap segs 2001:db8:1::aa dev eth0 && "
          "ip route add 2001:db8:77::77/128 encap seg6 mode encap segs 2001:db8:1::aa dev eth0");
    check_sums();
    options.devices = {"eth0"};
    options.xdp = mode;
  }
};

/// A client asks a service with one backend, over each family, by TCP and by UDP.
template <class Serve, class Judge>
void ask_everyhow(Serve serve, Judge judge) {
  const auto mode = GENERATE(agent::XdpMode::off, agent::XdpMode::native);
  BehindSegment scene(mode);
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  for (const int family : {AF_INET, AF_INET6}) {
    for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
      INFO((mode == agent::XdpMode::off ? "tc" : "XDP")
           << (family == AF_INET ? " IPv4" : " IPv6") << (type == SOCK_STREAM ? " TCP" : " UDP"));
      const auto where = end(names(family).vip, port);
      const auto server = serve(scene, writer, names(family), type);
      writer.frontend(where, type == SOCK_STREAM ? LB_TCP : LB_UDP, 1, LB_LOAD_BALANCER);
      std::optional<End> seen;
      const auto counted =
          counter_deltas(writer, [&] { seen = talk(scene.outside, server, type, where, within_one_packet); });
      REQUIRE(seen);
      CHECK(counted.flow_stack > 0);
      judge(counted, *seen, family);
    }
  }
}

}  // namespace

TEST_CASE("REL-99 clients behind a route that encapsulates have answers of backends elsewhere",
          "[features]") {
  ask_everyhow(
      [](BehindSegment& scene, Writer& writer, const PodNames& known, int type) {
        const auto backend = end(known.remote_pod, backend_port);
        writer.service(1, {{1, backend}});
        return serve_at(scene.remote, type, backend);
      },
      [](const auto& counted, const End& /*seen*/, int /*family*/) {
        CHECK(counted.no_route == 0);
        CHECK(counted.new_remote + counted.new_xdp == 1);
      });
}

TEST_CASE("REL-99 clients behind a route that encapsulates have answers of backends here", "[features]") {
  ask_everyhow(
      [](BehindSegment& scene, Writer& writer, const PodNames& known, int type) {
        const auto backend = end(known.server, backend_port);
        writer.service(1, {{1, backend, LB_YES, LB_SAME_NODE}});
        return serve_at(scene.server, type, backend);
      },
      [](const auto& counted, const End& seen, int family) {
        CHECK(seen.address == end(client_address(family), port).address);
        CHECK(counted.new_local == 1);
      });
}

}  // namespace lb::test
