// SPDX-License-Identifier: Apache-2.0
// REL-15: a path behind the load balancer with a smaller MTU than the clients' paths. The routers' ICMP
// errors reach the senders with the service's address in them, and transfers complete; traceroute works
// (SEM-41).
#include <fmt/format.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr std::uint16_t port = 80;
constexpr std::uint16_t backend_port = 8080;
constexpr int narrow = 1280;

/// Behind the other node are a router with a narrow link, and behind that a wide link to the backend, so that
/// the backend's own MSS does not reflect the narrow link.
struct NarrowScene : PodScene {
  NarrowScene() : PodScene(Wiring::routed) {
    remote.run(
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 && "
        "ip address del 10.244.2.2/32 dev lo && ip address del fd00:244:2::2/128 dev lo");
    connect(remote, router, "narrow", "172.16.1", "fd00:1", narrow);
    connect(router, far, "wide", "172.16.2", "fd00:2", 1500);
    router.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
    const auto way = [](const char* to, const char* by, const char* to6, const char* by6) {
      return fmt::format("ip route add {} via {} && ip route add {} via {}", to, by, to6, by6);
    };
    remote.run(way("10.244.2.2", "172.16.1.2", "fd00:244:2::2", "fd00:1::2"));
    router.run(way("10.244.2.2", "172.16.2.2", "fd00:244:2::2", "fd00:2::2"));
    router.run(way("default", "172.16.1.1", "default", "fd00:1::1"));
    far.run(way("default", "172.16.2.1", "default", "fd00:2::1"));
    far.run("ip address add 10.244.2.2/32 dev lo && ip address add fd00:244:2::2/128 dev lo nodad");
  }

  static void connect(const Host& one, const Host& other, const char* device, const char* net,
                      const char* net6, int mtu) {
    one.run(fmt::format("ip link add {0} mtu {1} type veth peer name {0} mtu {1} netns {2}", device, mtu,
                        other.space().path()));
    for (const auto* host : {&one, &other}) {
      host->run(
          fmt::format("ip link set {0} up && ip address add {1}.{3}/30 dev {0} && "
                      "ip address add {2}::{3}/126 dev {0} nodad",
                      device, net, net6, host == &one ? 1 : 2));
    }
  }

  Host router, far;
};

/// Writes a service for TCP and UDP at the address of this kind.
End offer(Writer& writer, const PodNames& known, const std::string& backend, lb_kind kind) {
  const auto where = end(kind == LB_CLUSTER_IP ? known.service : known.vip, port);
  writer.service(1, {{1, end(backend, backend_port)}});
  writer.frontend(where, LB_TCP, 1, kind);
  writer.frontend(where, LB_UDP, 1, kind);
  return where;
}

std::string path_mtu_of(const Host& client, const End& where) {
  return client.output("ip route get " + where.address.text());
}

/// Uploads 10 MB and checks the path MTU that the client's kernel learned.
void upload(const Host& client, const Host& backend_host, const End& where, const End& backend) {
  const auto server = serve_at(backend_host, SOCK_STREAM, backend);
  CHECK(talk(client, server, SOCK_STREAM, where, 10'000'000));
  CHECK_THAT(path_mtu_of(client, where), ContainsSubstring(fmt::format("mtu {}", narrow)));
}

const char* family_text(int family) { return family == AF_INET ? "IPv4" : "IPv6"; }

}  // namespace

TEST_CASE("REL-15 SEM-43 10 MB pass a narrow link behind another node, with source NAT, by tc and by XDP") {
  for (const auto mode : {agent::XdpMode::off, agent::XdpMode::native}) {
    NarrowScene scene;
    scene.options.xdp = mode;
    if (mode == agent::XdpMode::native) {
      scene.check_sums();
      scene.far.run("ethtool -K wide tx off >/dev/null");
    }
    REQUIRE(scene.attach().failure().empty());
    Writer writer(scene.lab.pins());
    for (const int family : {AF_INET, AF_INET6}) {
      INFO(family_text(family) << (mode == agent::XdpMode::off ? " tc" : " XDP"));
      const auto& known = names(family);
      const auto where = offer(writer, known, known.remote_pod, LB_LOAD_BALANCER);
      const auto rose = counter_deltas(
          writer, [&] { upload(scene.outside, scene.far, where, end(known.remote_pod, backend_port)); });
      CHECK(rose.icmp_redirect > 0);
      CHECK((rose.flow_xdp > 1000) == scene.runs_xdp());
    }
  }
}

TEST_CASE("REL-15 10 MB pass a narrow link from a pod through a ClusterIP, without source NAT") {
  NarrowScene scene;
  REQUIRE(scene.attach().pod_failure().empty());
  Writer writer(scene.lab.pins());
  for (const int family : {AF_INET, AF_INET6}) {
    INFO(family_text(family));
    const auto& known = names(family);
    const auto where = offer(writer, known, known.remote_pod, LB_CLUSTER_IP);
    upload(scene.client, scene.far, where, end(known.remote_pod, backend_port));
  }
}

TEST_CASE("REL-15 10 MB pass to a pod here whose own device is narrow") {
  NarrowScene scene;
  shell(fmt::format("ip link set pods3 mtu {}", narrow));
  REQUIRE(scene.attach().pod_failure().empty());
  Writer writer(scene.lab.pins());
  for (const int family : {AF_INET, AF_INET6}) {
    const auto& known = names(family);
    const auto backend = end(known.server, backend_port);
    {
      INFO(family_text(family) << " from outside");
      upload(scene.outside, scene.server, offer(writer, known, known.server, LB_LOAD_BALANCER), backend);
    }
    {
      INFO(family_text(family) << " from a pod");
      upload(scene.client, scene.server, offer(writer, known, known.server, LB_CLUSTER_IP), backend);
    }
  }
}

TEST_CASE("REL-15 iperf3 runs through a narrow link in both directions") {
  NarrowScene scene;
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  for (const int family : {AF_INET, AF_INET6}) {
    INFO(family_text(family));
    const auto& known = names(family);
    const auto where = offer(writer, known, known.remote_pod, LB_LOAD_BALANCER);
    const auto server = scene.far.start(fmt::format("exec iperf3 -s -p {}", backend_port));
    const auto address = where.address.text();
    for (const auto* way : {"", "-R"}) {
      scene.outside.run(fmt::format(
          "for try in 1 2 3 4 5 6 7 8 9 10; do timeout 20 iperf3 -c {} -p {} -n 10M {} >/dev/null && exit 0; "
          "sleep 0.1; done; exit 1",
          address, port, way));
    }
  }
}

namespace {

/// The node's own link to the backend is the narrow one.
struct NarrowUplink : PodScene {
  NarrowUplink() : PodScene(Wiring::routed) {
    NarrowScene::connect(Host::here(), far, "narrow", "172.16.1", "fd00:1", narrow);
    shell("ip route add 10.244.2.2 via 172.16.1.2 && ip route add fd00:244:2::2 via fd00:1::2");
    far.run(
        "ip route add default via 172.16.1.1 && ip route add default via fd00:1::1 && "
        "ip address add 10.244.2.2/32 dev lo && ip address add fd00:244:2::2/128 dev lo nodad");
    options.devices.emplace_back("narrow");
  }

  Host far;
};

/// `want`: "don't fragment" is set if the packet fits the known path MTU, as by sockets' default.
enum class Discovery : std::uint8_t { none, want };

Socket sender_of(const Host& host, int family, Discovery discovery) {
  auto socket = host.socket(family, SOCK_DGRAM);
  const int how = discovery == Discovery::none ? IP_PMTUDISC_DONT : IP_PMTUDISC_WANT;
  REQUIRE(::setsockopt(socket.fd(), IPPROTO_IP, IP_MTU_DISCOVER, &how, sizeof(how)) == 0);
  if (family == AF_INET6) {
    REQUIRE(::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_MTU_DISCOVER, &how, sizeof(how)) == 0);
  }
  return socket;
}

/// The number of datagrams lost until one arrives; sends at most five.
int lost_before(const Socket& client, const Socket& server, const End& where, std::size_t size) {
  for (int sent = 0; sent < 5; ++sent) {
    REQUIRE(client.send_to(where, std::string(size, 'x')) == 0);
    if (const auto message = server.receive(); message && message->words.size() == size) {
      return sent;
    }
  }
  return 5;
}

}  // namespace

TEST_CASE("REL-15 SEM-43 senders believe the size of our own way out, also without \"don't fragment\"") {
  NarrowUplink scene;
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  for (const int family : {AF_INET, AF_INET6}) {
    const auto& known = names(family);
    const auto where = offer(writer, known, known.remote_pod, LB_LOAD_BALANCER);
    const auto server = serve_at(scene.far, SOCK_DGRAM, end(known.remote_pod, backend_port));
    for (const auto discovery : {Discovery::none, Discovery::want}) {
      for (const std::size_t size : {std::size_t{1400}, std::size_t{8192}}) {
        INFO(family_text(family) << ", " << size << " bytes"
                                 << (discovery == Discovery::none ? ", no discovery" : ""));
        scene.outside.run("ip route flush cache && ip -6 route flush cache");
        const auto client = sender_of(scene.outside, family, discovery);
        const auto rose = counter_deltas(writer, [&] {
          REQUIRE(client.send_to(where, "small") == 0);
          REQUIRE(echo_once(server));
          REQUIRE(client.receive());
          CHECK(lost_before(client, server, where, size) == 1);
          CHECK(lost_before(client, server, where, size) == 0);
        });
        CHECK_THAT(path_mtu_of(scene.outside, where), ContainsSubstring(fmt::format("mtu {}", narrow)));
        const bool marked = family == AF_INET6 || (discovery == Discovery::want && size < 1500);
        CHECK((rose.too_big > 0) == marked);
        CHECK((rose.not_fragmented > 0) == !marked);
      }
    }
  }
}

namespace {

/// Checks traceroute's output from outside, with TCP and with UDP: the routers in order, then the service,
/// and never the backend.
void trace(const PodScene& scene, const std::string& service, const std::vector<std::string>& routers,
           const std::string& backend) {
  for (const auto* way : {"-T -p 80", "-U -p 80"}) {
    const auto text =
        scene.outside.output(fmt::format("traceroute -n -q 1 -w 2 -N 1 -m 6 {} {}", way, service));
    INFO(text);
    for (std::size_t hop = 0; hop < routers.size(); ++hop) {
      CHECK_THAT(text, ContainsSubstring(fmt::format("\n {}  {} ", hop + 1, routers[hop])));
    }
    CHECK_THAT(text, ContainsSubstring(fmt::format("\n {}  {} ", routers.size() + 1, service)));
    CHECK_THAT(text, !ContainsSubstring(backend));
  }
}

}  // namespace

TEST_CASE("SEM-41 traceroute to a service names the routers and then the service, never the backend") {
  NarrowScene scene;
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  for (const int family : {AF_INET, AF_INET6}) {
    INFO(family_text(family));
    const auto& known = names(family);
    const auto* router = family == AF_INET ? "172.16.1.2" : "fd00:1::2";
    {
      static_cast<void>(offer(writer, known, known.remote_pod, LB_LOAD_BALANCER));
      const auto server = serve_at(scene.far, SOCK_STREAM, end(known.remote_pod, backend_port));
      trace(scene, known.vip, {known.node, known.remote, router}, known.remote_pod);
    }
    static_cast<void>(offer(writer, known, known.server, LB_LOAD_BALANCER));
    const auto server = serve_at(scene.server, SOCK_STREAM, end(known.server, backend_port));
    trace(scene, known.vip, {known.node}, known.server);
  }
}

}  // namespace lb::test
