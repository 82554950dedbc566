// Beside others on a node: every path of a packet, under every rule that hosts and CNIs are known to have
// (issue 8, item 15).
#include <fmt/format.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/net/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t node_port = 30080;
constexpr std::uint16_t backend_port = 8080;

/// Whom the backend shall see.
enum class Sees : std::uint8_t {
  client,
  node,
  anyone,
  node_if_masqueraded,  ///< the CNI's rule applies to what leaves the cluster
};

struct Path {
  const char* name;
  Host PodScene::* from;
  Host PodScene::* to;
  std::string PodNames::* frontend;
  std::string PodNames::* backend;
  lb_kind kind;
  Sees sees;
};

const std::vector<Path> paths = {
    {"outside to a pod here by a load balancer", &PodScene::outside, &PodScene::server, &PodNames::vip,
     &PodNames::server, LB_LOAD_BALANCER, Sees::client},
    {"outside to a pod elsewhere by a load balancer", &PodScene::outside, &PodScene::remote, &PodNames::vip,
     &PodNames::remote_pod, LB_LOAD_BALANCER, Sees::node},
    {"outside to a pod here by a ClusterIP", &PodScene::outside, &PodScene::server, &PodNames::service,
     &PodNames::server, LB_CLUSTER_IP, Sees::anyone},
    {"outside to a pod elsewhere by a ClusterIP", &PodScene::outside, &PodScene::remote, &PodNames::service,
     &PodNames::remote_pod, LB_CLUSTER_IP, Sees::node},
    {"outside to a pod here by a node port", &PodScene::outside, &PodScene::server, &PodNames::node,
     &PodNames::server, LB_NODE_PORT, Sees::client},
    {"outside to a pod elsewhere by a node port", &PodScene::outside, &PodScene::remote, &PodNames::node,
     &PodNames::remote_pod, LB_NODE_PORT, Sees::node},
    {"outside to a pod here by a node port of another device's address", &PodScene::outside,
     &PodScene::server, &PodNames::second, &PodNames::server, LB_NODE_PORT, Sees::client},
    {"outside to a pod elsewhere by a node port of another device's address", &PodScene::outside,
     &PodScene::remote, &PodNames::second, &PodNames::remote_pod, LB_NODE_PORT, Sees::node},
    {"pod to a pod here by a ClusterIP", &PodScene::client, &PodScene::server, &PodNames::service,
     &PodNames::server, LB_CLUSTER_IP, Sees::client},
    {"pod to a pod elsewhere by a ClusterIP", &PodScene::client, &PodScene::remote, &PodNames::service,
     &PodNames::remote_pod, LB_CLUSTER_IP, Sees::client},
    {"pod to another node by a ClusterIP", &PodScene::client, &PodScene::remote, &PodNames::service,
     &PodNames::remote, LB_CLUSTER_IP, Sees::node_if_masqueraded},
    {"pod to itself by a ClusterIP", &PodScene::client, &PodScene::client, &PodNames::service,
     &PodNames::client, LB_CLUSTER_IP, Sees::anyone},
    {"pod to a pod here by a load balancer", &PodScene::client, &PodScene::server, &PodNames::vip,
     &PodNames::server, LB_LOAD_BALANCER, Sees::anyone},
    {"pod to a pod elsewhere by a load balancer", &PodScene::client, &PodScene::remote, &PodNames::vip,
     &PodNames::remote_pod, LB_LOAD_BALANCER, Sees::anyone},
    {"pod to a pod here by a node port", &PodScene::client, &PodScene::server, &PodNames::node,
     &PodNames::server, LB_NODE_PORT, Sees::anyone},
    {"pod to a pod elsewhere by a node port", &PodScene::client, &PodScene::remote, &PodNames::node,
     &PodNames::remote_pod, LB_NODE_PORT, Sees::anyone},
    {"pod to itself by a node port of another device's address", &PodScene::client, &PodScene::client,
     &PodNames::second, &PodNames::client, LB_NODE_PORT, Sees::anyone},
};

/// What the host does with packets besides us.
struct Rules {
  int rp_filter;
  bool drops_invalid;
  bool masquerades;
};

std::vector<Rules> all_rules() {
  std::vector<Rules> all;
  for (const int rp_filter : {0, 1, 2}) {
    for (const bool drops_invalid : {false, true}) {
      for (const bool masquerades : {false, true}) {
        all.push_back({rp_filter, drops_invalid, masquerades});
      }
    }
  }
  return all;
}

std::string text_of(const Rules& rules) {
  return fmt::format("rp_filter {}{}{}", rules.rp_filter, rules.drops_invalid ? ", drop INVALID" : "",
                     rules.masquerades ? ", masquerade" : "");
}

/// IPv6 has no rp_filter; firewalld and others do this instead.
std::string reverse_path_of(int rp_filter) {
  const auto* way = rp_filter == 1 ? "saddr . iif" : "saddr";
  return rp_filter == 0 ? ""
                        : fmt::format(
                              "chain pre {{ type filter hook prerouting priority raw; "
                              "icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept; "
                              "meta nfproto ipv6 fib {} oif missing drop; }}\n",
                              way);
}

std::string masquerade_of(const char* family, const std::string& pods) {
  return fmt::format(
      "table {0} cni {{ chain post {{ type nat hook postrouting priority srcnat; "
      "{0} saddr {1} {0} daddr != {1} masquerade; }}\n}}\n",
      family, pods);
}

void apply(const Rules& rules) {
  std::string text = "flush ruleset\ntable inet host {\n" + reverse_path_of(rules.rp_filter);
  text += "chain forward { type filter hook forward priority filter; ";
  text += std::string(rules.drops_invalid ? "ct state invalid drop; " : "") + "}\n}\n";
  if (rules.masquerades) {
    text += masquerade_of("ip", names(AF_INET).pods) + masquerade_of("ip6", names(AF_INET6).pods);
  }
  shell(fmt::format("nft '{}'", text));
  shell(fmt::format("for each in /proc/sys/net/ipv4/conf/*/rp_filter; do echo {} >$each; done",
                    rules.rp_filter));
}

/// Offers the path's backend at its frontend and returns the frontend.
End offer(Writer& writer, const Path& path, const PodNames& known, lb_protocol protocol) {
  const auto number = static_cast<std::uint32_t>(&path - paths.data()) + 1;
  const End backend = end(known.*path.backend, backend_port);
  writer.service(number, {{number, backend}});
  if (path.kind != LB_NODE_PORT) {
    const auto where = end(known.*path.frontend, port);
    writer.frontend(where, protocol, number, path.kind);
    return where;
  }
  const auto where = end(known.*path.frontend, node_port);
  writer.address(known.*path.frontend, LB_NODE_PORT_ADDRESS);
  writer.node_port(where.address, where.port, protocol, number);
  return where;
}

std::string address_of(const End& where) { return where.address.text(); }

void check_source(const Path& path, const PodNames& known, const Rules& rules, const End& seen) {
  const auto& client = path.from == &PodScene::outside ? known.outside : known.client;
  const bool node = path.sees == Sees::node || (path.sees == Sees::node_if_masqueraded && rules.masquerades);
  if (path.sees != Sees::anyone) {
    CHECK(address_of(seen) == (node ? known.node : client));
  }
}

void walk(const PodScene& scene, Writer& writer, const Rules& rules, int family, int type) {
  const auto& known = names(family);
  for (const auto& path : paths) {
    INFO(fmt::format("{}, {} {}: {}", text_of(rules), family == AF_INET ? "IPv4" : "IPv6",
                     type == SOCK_STREAM ? "TCP" : "UDP", path.name));
    const auto where = offer(writer, path, known, type == SOCK_STREAM ? LB_TCP : LB_UDP);
    const auto server = serve_at(scene.*path.to, type, end(known.*path.backend, backend_port));
    const auto seen = talk(scene.*path.from, server, type, where);
    CHECK(seen);
    if (seen) {
      check_source(path, known, rules, *seen);
    }
  }
}

}  // namespace

namespace {

void walk_all(const PodScene& scene, Writer& writer, const Rules& rules) {
  for (const int family : {AF_INET, AF_INET6}) {
    for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
      walk(scene, writer, rules, family, type);
    }
  }
}

}  // namespace

TEST_CASE("every path works under every rule of the host (SEM-33, SEM-34)", "[matrix]") {
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().pod_failure().empty());
  Writer writer(scene.lab.pins());
  for (const auto& rules : all_rules()) {
    apply(rules);
    walk_all(scene, writer, rules);
  }
}

TEST_CASE("every path works with XDP, under the strictest rules of the host", "[matrix][features]") {
  PodScene scene(Wiring::routed);
  scene.check_sums();
  scene.options.xdp = agent::XdpMode::native;
  const auto report = scene.attach();
  REQUIRE(report.pod_failure().empty());
  REQUIRE(report.packets_text().find("native") != std::string::npos);
  Writer writer(scene.lab.pins());
  for (const auto& rules : {Rules{0, false, false}, Rules{1, true, true}}) {
    apply(rules);
    const auto rose = rise(writer, [&] { walk_all(scene, writer, rules); });
    CHECK(rose.new_xdp > 0);
    CHECK(rose.flow_xdp > 0);
  }
}

}  // namespace lb::test
