// SPDX-License-Identifier: Apache-2.0
// SEM-40: complete SCTP associations of an independent stack: usrsctp's echo server and client, which need no
// SCTP in the kernel, because they use raw sockets.
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

#include "tests/net/lib/pod_scene.hpp"

namespace lb::test {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr std::uint16_t port = 80;
constexpr std::uint16_t echo_port = 7;  // the fixed port of echo_server
constexpr int lines = 20;

struct Path {
  const char* name;
  Host PodScene::* from;
  Host PodScene::* to;
  std::string PodNames::* backend;
  lb_kind kind;
};

const std::vector<Path> paths = {
    {"outside to a pod here", &PodScene::outside, &PodScene::server, &PodNames::server, LB_LOAD_BALANCER},
    {"outside to another node", &PodScene::outside, &PodScene::remote, &PodNames::remote, LB_LOAD_BALANCER},
    {"pod to a pod here", &PodScene::client, &PodScene::server, &PodNames::server, LB_CLUSTER_IP},
    {"pod to another node", &PodScene::client, &PodScene::remote, &PodNames::remote, LB_CLUSTER_IP},
};

/// SCTP would announce a second address, also one of the other family, to the peer, which could then bypass
/// the service.
void leave_one_address(const PodScene& scene, int family) {
  for (const auto* host : {&scene.client, &scene.server, &scene.remote, &scene.outside}) {
    host->run(family == AF_INET ? "sysctl -qw net.ipv6.conf.all.disable_ipv6=1"
                                : "ip -4 address flush dev eth0");
  }
  scene.remote.run("ip address del 10.244.2.2/32 dev lo");
}

/// Retries while the server does not listen yet and refuses. The client ends the association itself; its
/// output until then is the result.
std::string ask(const Host& client, const std::string& address) {
  std::string text;
  for (int tries = 0; tries < 10 && (text.empty() || text.find("Connection refused") != std::string::npos);
       ++tries) {
    text = client.output(fmt::format(
        "out=$(mktemp); (for each in $(seq {0}); do echo \"line $each.\"; sleep 0.01; done; "
        "for each in $(seq 200); do grep -qE 'line {0}[.]|refused' $out && break; sleep 0.05; done) | "
        "timeout 20 stdbuf -oL /usr/lib/usrsctp/client {1} {2} >$out 2>&1; cat $out; rm -f $out",
        lines, address, port));
  }
  return text;
}

/// Sends lines and checks that each is echoed; ends the association.
void echo(const Host& client, const std::string& address) {
  const auto text = ask(client, address);
  INFO(text);
  CHECK_THAT(text, ContainsSubstring(fmt::format("Peer addresses: {}.", address)));
  for (int line = 1; line <= lines; ++line) {
    CHECK_THAT(text, ContainsSubstring(fmt::format("line {}.", line)));
  }
  CHECK_THAT(text, ContainsSubstring("SCTP_SHUTDOWN_COMP"));
}

}  // namespace

TEST_CASE("SEM-40 SCTP associations come about, carry data and end on every path") {
  for (const auto mode : {agent::XdpMode::off, agent::XdpMode::native}) {
    for (const int family : {AF_INET, AF_INET6}) {
      PodScene scene(Wiring::routed);
      scene.options.xdp = mode;
      REQUIRE(scene.attach().failure().empty());
      Writer writer(scene.lab.pins());
      leave_one_address(scene, family);
      const auto& known = names(family);
      for (const auto& path : paths) {
        if (mode != agent::XdpMode::off && path.from != &PodScene::outside) {
          continue;  // neither is on eth0
        }
        INFO((family == AF_INET ? "IPv4 " : "IPv6 ")
             << path.name << (mode == agent::XdpMode::off ? ", tc" : ", XDP"));
        const auto& address = path.kind == LB_CLUSTER_IP ? known.service : known.vip;
        writer.service(1, {{1, end(known.*path.backend, echo_port)}});
        writer.frontend(end(address, port), LB_SCTP, 1, path.kind);
        const auto server = (scene.*path.to).start("exec /usr/lib/usrsctp/echo_server");
        const auto rose = counter_deltas(writer, [&] { echo(scene.*path.from, address); });
        const bool by_xdp =
            scene.runs_xdp() && path.from == &PodScene::outside && path.to == &PodScene::remote;
        CHECK((rose.flow_xdp > 5) == by_xdp);
        CHECK(rose.flow_xdp + rose.flow_redirect + rose.flow_stack > 10);
      }
    }
  }
}

}  // namespace lb::test
