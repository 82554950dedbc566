// SPDX-License-Identifier: Apache-2.0
// Other owners' rules on a node: every path of a packet, under every rule that hosts and CNIs are known to
// have (SEM-33, SEM-34).
#include <fmt/format.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/net/lib/paths.hpp"
#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t backend_port = 8080;

/// The source address that the backend must see.
enum class Sees : std::uint8_t {
  client,
  node,
  anyone,
  node_if_masqueraded,  ///< the CNI's rule applies to packets that leave the cluster
};

struct Path {
  Leg leg;
  At at;
  Sees sees;
};

const std::vector<Path> paths = {
    {outside_here, load_balancer, Sees::client},
    {outside_elsewhere, load_balancer, Sees::node},
    {outside_here, cluster_ip, Sees::anyone},
    {outside_elsewhere, cluster_ip, Sees::node},
    {outside_here, node_port, Sees::client},
    {outside_elsewhere, node_port, Sees::node},
    {outside_here, other_node_port, Sees::client},
    {outside_elsewhere, other_node_port, Sees::node},
    {pod_here, cluster_ip, Sees::client},
    {pod_elsewhere, cluster_ip, Sees::client},
    {pod_to_node, cluster_ip, Sees::node_if_masqueraded},
    {pod_to_itself, cluster_ip, Sees::anyone},
    {pod_here, load_balancer, Sees::anyone},
    {pod_elsewhere, load_balancer, Sees::anyone},
    {pod_here, node_port, Sees::anyone},
    {pod_elsewhere, node_port, Sees::anyone},
    {pod_to_itself, other_node_port, Sees::anyone},
};

/// What the host does with packets besides Sluice.
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

/// IPv6 has no rp_filter; firewalld and others use these rules instead.
std::string reverse_path_of(int rp_filter) {
  const auto* way = rp_filter == 1 ? "saddr . iif" : "saddr";
  return rp_filter == 0 ? ""
                        : fmt::format(
                              "chain pre {{ type filter hook prerouting priority raw; "
                              "icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept; "
                              "meta nfproto ipv6 fib {} oif missing drop; }}\n",
                              way);
}

void apply(const Rules& rules) {
  std::string text = "flush ruleset\ntable inet host {\n" + reverse_path_of(rules.rp_filter);
  text += "chain forward { type filter hook forward priority filter; ";
  text += std::string(rules.drops_invalid ? "ct state invalid drop; " : "") + "}\n}\n";
  if (rules.masquerades) {
    text += masquerade_rules();
  }
  shell(fmt::format("nft '{}'", text));
  shell(fmt::format("for each in /proc/sys/net/ipv4/conf/*/rp_filter; do echo {} >$each; done",
                    rules.rp_filter));
}

std::string address_of(const End& where) { return where.address.text(); }

void check_source(const Path& path, const PodNames& known, const Rules& rules, const End& seen) {
  const auto& client = path.leg.from == &PodScene::outside ? known.outside : known.client;
  const bool node = path.sees == Sees::node || (path.sees == Sees::node_if_masqueraded && rules.masquerades);
  if (path.sees != Sees::anyone) {
    CHECK(address_of(seen) == (node ? known.node : client));
  }
}

void walk(const PodScene& scene, Writer& writer, const Rules& rules, int family, int type) {
  const auto& known = names(family);
  std::uint32_t number = 0;
  for (const auto& path : paths) {
    const auto& leg = path.leg;
    INFO(fmt::format("{}, {} {}: {} by {}", text_of(rules), family == AF_INET ? "IPv4" : "IPv6",
                     type == SOCK_STREAM ? "TCP" : "UDP", leg.name, path.at.name));
    const auto backend = end(known.*leg.backend, backend_port);
    const auto where =
        offer(writer, ++number, path.at, known, backend, type == SOCK_STREAM ? LB_TCP : LB_UDP);
    const auto server = serve_at(scene.*leg.to, type, backend);
    const auto seen = talk(scene.*leg.from, server, type, where);
    CHECK(seen);
    if (seen) {
      check_source(path, known, rules, *seen);
    }
  }
}

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
    const auto rose = counter_deltas(writer, [&] { walk_all(scene, writer, rules); });
    CHECK(rose.new_xdp > 0);
    CHECK(rose.flow_xdp > 0);
  }
}

}  // namespace lb::test
