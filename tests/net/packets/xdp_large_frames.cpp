// SPDX-License-Identifier: Apache-2.0
// Frames that are too large for XDP: it leaves them to tc, and takes the small ones of the same connections
// (SEM-43, REL-20).
#include <fmt/format.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>

#include "tests/net/packets/xdp_scene.hpp"

namespace lb::test {

TEST_CASE("SEM-43 REL-20 jumbo frames pass, by tc and beside XDP") {
  for (const auto mode : {agent::XdpMode::off, agent::XdpMode::native}) {
    XdpScene scene(mode);
    scene.wire.run("for each in wire to-node to-remote to-outside; do ip link set $each mtu 9000; done");
    for (const auto* host : {&scene.remote, &scene.outside}) {
      host->run("ip link set eth0 mtu 9000");
    }
    shell("ip link set eth0 mtu 9000");
    const auto report = scene.attach();
    if (scene.runs_xdp()) {
      CHECK(report.packets_text().find("native") != std::string::npos);
    }
    Writer writer(scene.lab.pins());
    for (const int family : {AF_INET, AF_INET6}) {
      INFO(mode_text(mode) << (family == AF_INET ? " IPv4" : " IPv6"));
      const auto made = offer(writer, family);
      const auto elsewhere = serve_at(scene.remote, SOCK_STREAM, made.elsewhere_backend);
      const auto here = serve_at(scene.server, SOCK_STREAM, made.here_backend);
      const auto rose = counter_deltas(writer, [&] {
        CHECK(talk(scene.outside, elsewhere, SOCK_STREAM, made.elsewhere, 5'000'000));
        CHECK(talk(scene.outside, here, SOCK_STREAM, made.here, 5'000'000));
      });
      // Small frames, such as acknowledgements, take XDP, although it leaves the large ones to tc.
      CHECK((rose.flow_xdp > 0) == scene.runs_xdp());
      CHECK(rose.flow_redirect > 500);
    }
  }
}

// BIG TCP: segments of more than 64 KiB, which the kernel marks by a jumbo option between the headers.
TEST_CASE("SEM-43 segments of 128 KiB pass, by tc and beside XDP") {
  for (const auto mode : {agent::XdpMode::off, agent::XdpMode::native}) {
    INFO(mode_text(mode));
    XdpScene scene(mode);
    constexpr const char* large = "ip link set {} gso_max_size 131072 gro_max_size 131072";
    for (const auto* host : {&scene.remote, &scene.outside, &scene.server}) {
      host->run("ethtool -K eth0 tx on gro on >/dev/null && " + fmt::format(fmt::runtime(large), "eth0"));
    }
    for (const auto* device : {"to-node", "to-remote", "to-outside"}) {
      scene.wire.run(fmt::format(fmt::runtime(large), device));
    }
    for (const auto* device : {"eth0", "pods3"}) {
      shell(fmt::format(fmt::runtime(large), device));
    }
    REQUIRE(scene.attach().failure().empty());
    Writer writer(scene.lab.pins());
    const auto made = offer(writer, AF_INET6);
    const auto elsewhere = serve_at(scene.remote, SOCK_STREAM, made.elsewhere_backend);
    const auto here = serve_at(scene.server, SOCK_STREAM, made.here_backend);
    CHECK(talk(scene.outside, elsewhere, SOCK_STREAM, made.elsewhere, 30'000'000));
    CHECK(talk(scene.outside, here, SOCK_STREAM, made.here, 30'000'000));
  }
}

}  // namespace lb::test
