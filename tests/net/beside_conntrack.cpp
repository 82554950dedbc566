// Ten megabytes each way while the host tracks connections, drops what is INVALID and masquerades: either
// both directions of a connection meet its stack or neither does (REL-67).
#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "tests/net/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t node_port = 30080;
constexpr std::uint16_t backend_port = 8080;
constexpr std::size_t ten_megabytes = 10'000'000;

/// Who carries a connection's packets.
enum class By : std::uint8_t { stack, redirect };

struct Path {
  const char* name;
  Host PodScene::* from;
  Host PodScene::* to;
  std::string PodNames::* frontend;
  std::string PodNames::* backend;
  lb_kind kind;
  By by;
};

const std::vector<Path> paths = {
    {"outside to a pod here by a load balancer", &PodScene::outside, &PodScene::server, &PodNames::vip,
     &PodNames::server, LB_LOAD_BALANCER, By::stack},
    {"outside to a pod elsewhere by a load balancer", &PodScene::outside, &PodScene::remote, &PodNames::vip,
     &PodNames::remote_pod, LB_LOAD_BALANCER, By::redirect},
    {"outside to a pod here by a node port", &PodScene::outside, &PodScene::server, &PodNames::node,
     &PodNames::server, LB_NODE_PORT, By::stack},
    {"outside to a pod elsewhere by a node port", &PodScene::outside, &PodScene::remote, &PodNames::node,
     &PodNames::remote_pod, LB_NODE_PORT, By::redirect},
    {"pod to a pod here by a ClusterIP", &PodScene::client, &PodScene::server, &PodNames::service,
     &PodNames::server, LB_CLUSTER_IP, By::stack},
    {"pod to a pod elsewhere by a ClusterIP", &PodScene::client, &PodScene::remote, &PodNames::service,
     &PodNames::remote_pod, LB_CLUSTER_IP, By::stack},
    {"pod to another node by a ClusterIP, masqueraded", &PodScene::client, &PodScene::remote,
     &PodNames::service, &PodNames::remote, LB_CLUSTER_IP, By::stack},
};

std::string masquerade_of(const char* family, const std::string& pods) {
  return fmt::format(
      "table {0} cni {{ chain post {{ type nat hook postrouting priority srcnat; "
      "{0} saddr {1} {0} daddr != {1} masquerade; }}\n}}\n",
      family, pods);
}

void track() {
  shell(
      fmt::format("nft 'table inet host {{ chain forward {{ type filter hook forward priority filter; "
                  "ct state invalid counter drop; }}\n}}\n{}{}'",
                  masquerade_of("ip", names(AF_INET).pods), masquerade_of("ip6", names(AF_INET6).pods)));
  shell("sysctl -qw net.netfilter.nf_conntrack_acct=1");
}

/// A line of /proc/net/nf_conntrack: what went by in the direction of its first packet, and against it.
struct Tracked {
  std::string line;
  std::array<std::size_t, 2> bytes{};
};

/// Connections of which one end is this port.
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

End offer(Writer& writer, const Path& path, const PodNames& known, const End& backend) {
  const auto number = static_cast<std::uint32_t>(&path - paths.data()) + 1;
  const bool by_node = path.kind == LB_NODE_PORT;
  const auto where = end(known.*path.frontend, by_node ? node_port : port);
  writer.service(number, {{number, backend}});
  if (by_node) {
    writer.address(known.*path.frontend, LB_NODE_PORT_ADDRESS);
    writer.node_port(where.address, where.port, LB_TCP, number);
  } else {
    writer.frontend(where, LB_TCP, number, path.kind);
  }
  return where;
}

void walk(const PodScene& scene, Writer& writer, int family) {
  const auto& known = names(family);
  auto backend = end(known.node, static_cast<std::uint16_t>(backend_port + (family == AF_INET ? 0 : 100)));
  for (const auto& path : paths) {
    INFO((family == AF_INET ? "IPv4: " : "IPv6: ") << path.name);
    backend = end(known.*path.backend, ++backend.port);
    const auto server = serve_at(scene.*path.to, SOCK_STREAM, backend);
    CHECK(talk(scene.*path.from, server, SOCK_STREAM, offer(writer, path, known, backend), ten_megabytes));
    const auto seen = tracked(backend.port);
    CHECK(seen.size() == (path.by == By::stack ? 1 : 0));
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
