// SPDX-License-Identifier: Apache-2.0
// VLAN-tagged frames belong to the VLAN's device, whether the tag is in the frame or in the metadata.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t backend_port = 8080;

/// Sends a datagram for the service from `outside` by scapy, in a frame with these tags.
void send_frame(const PodScene& scene, int family, const std::string& tags) {
  const auto node = Host::here().mac_address("eth0");
  const auto& who = names(family);
  scene.outside.run(
      fmt::format("/usr/bin/python3 -c \"from scapy.all import *; sendp(Ether(dst='{:02x}'){}/{}(src='{}', "
                  "dst='{}')/UDP(sport=33000, "
                  "dport={})/b'words', iface='eth0', verbose=0)\"",
                  fmt::join(node, ":"), tags, family == AF_INET ? "IP" : "IPv6", who.outside, who.vip, port));
}

}  // namespace

TEST_CASE("REL-17 a tagged frame is left to its VLAN's device, though tc sees it without the tag") {
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  for (const int family : {AF_INET, AF_INET6}) {
    INFO((family == AF_INET ? "IPv4" : "IPv6"));
    const auto backend = end(names(family).server, backend_port);
    writer.service(1, {{1, backend, LB_YES, LB_SAME_NODE}});
    writer.frontend(end(names(family).vip, port), LB_UDP, 1, LB_LOAD_BALANCER);
    const auto server = serve_at(scene.server, SOCK_DGRAM, backend);
    auto rose = counter_deltas(writer, [&] {
      for (const auto* tags : {"/Dot1Q(vlan=7)", "/Dot1AD(vlan=9)/Dot1Q(vlan=7)"}) {
        send_frame(scene, family, tags);
      }
      CHECK_FALSE(server.receive());
    });
    CHECK(rose.not_ip >= 2);
    CHECK(rose.new_local == 0);
    rose = counter_deltas(writer, [&] {
      send_frame(scene, family, "");
      CHECK(server.receive());
    });
    CHECK(rose.new_local == 1);
  }
}

}  // namespace lb::test
