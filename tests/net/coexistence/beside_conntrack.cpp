// SPDX-License-Identifier: Apache-2.0
// Ten megabytes each way while the host tracks connections, drops INVALID packets and masquerades: either
// both directions of a connection pass its stack or neither does (REL-67).
#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "tests/net/lib/paths.hpp"
#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t backend_port = 8080;
constexpr std::size_t ten_megabytes = 10'000'000;

/// Whether the stack or a redirect carries a connection's packets.
enum class By : std::uint8_t { stack, redirect };

struct Path {
  Leg leg;
  At at;
  By by;
};

const std::vector<Path> paths = {
    {outside_here, load_balancer, By::stack}, {outside_elsewhere, load_balancer, By::redirect},
    {outside_here, node_port, By::stack},     {outside_elsewhere, node_port, By::redirect},
    {pod_here, cluster_ip, By::stack},        {pod_elsewhere, cluster_ip, By::stack},
    {pod_to_node, cluster_ip, By::stack},
};

void track() {
  shell(
      fmt::format("nft 'table inet host {{ chain forward {{ type filter hook forward priority filter; "
                  "ct state invalid counter drop; }}\n}}\n{}'",
                  masquerade_rules()));
  shell("sysctl -qw net.netfilter.nf_conntrack_acct=1");
}

/// A line of /proc/net/nf_conntrack, with the bytes in the original direction and in the reply direction.
struct Tracked {
  std::string line;
  std::array<std::size_t, 2> bytes{};
};

/// The entries with this port at one end.
std::vector<Tracked> tracked(std::uint16_t of) {
  std::vector<Tracked> found;
  std::istringstream lines(Host::here().output("cat /proc/net/nf_conntrack"));
  for (std::string line; std::getline(lines, line);) {
    if (line.find(fmt::format("port={} ", of)) == std::string::npos) {
      continue;
    }
    Tracked entry{line, {}};
    std::size_t at = 0;
    for (auto& bytes : entry.bytes) {
      at = line.find(" bytes=", at) + 7;
      bytes = std::strtoull(line.c_str() + at, nullptr, 10);
    }
    found.push_back(entry);
  }
  return found;
}

void walk(const PodScene& scene, Writer& writer, int family) {
  const auto& known = names(family);
  auto backend = end(known.node, static_cast<std::uint16_t>(backend_port + (family == AF_INET ? 0 : 100)));
  std::uint32_t number = 0;
  for (const auto& [leg, at, by] : paths) {
    INFO((family == AF_INET ? "IPv4: " : "IPv6: ") << leg.name << " by " << at.name);
    backend = end(known.*leg.backend, ++backend.port);
    const auto server = serve_at(scene.*leg.to, SOCK_STREAM, backend);
    const auto where = offer(writer, ++number, at, known, backend, LB_TCP);
    CHECK(talk(scene.*leg.from, server, SOCK_STREAM, where, ten_megabytes));
    const auto seen = tracked(backend.port);
    CHECK(seen.size() == (by == By::stack ? 1 : 0));
    for (const auto& entry : seen) {
      INFO(entry.line);
      CHECK(entry.bytes[0] > ten_megabytes);
      CHECK(entry.bytes[1] > ten_megabytes);
      CHECK(entry.line.find("[ASSURED]") != std::string::npos);
    }
  }
}

}  // namespace

TEST_CASE("REL-67 both directions of a connection are tracked by the host, or neither") {
  PodScene scene(Wiring::routed);
  SECTION("by tc") {}
  SECTION("by XDP") {
    scene.options.xdp = agent::XdpMode::native;
    scene.check_sums();
  }
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  track();
  walk(scene, writer, AF_INET);
  walk(scene, writer, AF_INET6);
  CHECK(Host::here().output("nft list chain inet host forward").find("counter packets 0 bytes 0") !=
        std::string::npos);
}

}  // namespace lb::test
