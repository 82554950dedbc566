// Node ports on localhost: they serve the node's own processes, in both families, and no host on the network
// (SEM-35, choice B, REL-50).
#include <fcntl.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <string>

#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t node_port = 30080;
constexpr std::uint16_t backend_port = 8080;

const char* loopback(int family) { return family == AF_INET ? "127.0.0.1" : "::1"; }

struct LocalhostScene : PodScene {
  LocalhostScene() : PodScene(Wiring::routed) {
    options.sockets = agent::SocketScope::all;
    REQUIRE(attach().failure().empty());
    writer.emplace(lab.pins());
    for (const int family : {AF_INET, AF_INET6}) {
      writer->address(loopback(family), LB_LOOPBACK_ADDRESS);
    }
  }

  /// Adds a node port for the pod `server`; returns the pod's address.
  End offer(int family, lb_protocol protocol) {
    const auto backend = end(names(family).server, backend_port);
    writer->service(1, {{1, backend}});
    writer->node_port(backend.address, node_port, protocol, 1);
    return backend;
  }

  std::optional<Writer> writer;
};

/// Checks that no packet gets through.
void knock(const Socket& client, const Socket& listener, int type, const End& where) {
  if (type == SOCK_STREAM) {
    ::fcntl(client.fd(), F_SETFL, O_NONBLOCK);
    CHECK(client.connect(where) == EINPROGRESS);
    CHECK_FALSE(listener.accept());
  } else {
    CHECK(client.send_to(where, "let me in") == 0);
    CHECK_FALSE(listener.receive());
  }
}

}  // namespace

TEST_CASE("SEM-35 localhost's node ports serve the node's processes, in both families, and no pod's") {
  LocalhostScene scene;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
      INFO((family == AF_INET ? "IPv4 " : "IPv6 ") << (type == SOCK_STREAM ? "TCP" : "UDP"));
      const auto backend = scene.offer(family, type == SOCK_STREAM ? LB_TCP : LB_UDP);
      const auto where = end(loopback(family), node_port);
      const auto listener = serve_at(scene.server, type, backend);
      CHECK(talk(Host::here(), listener, type, where));
      CHECK_FALSE(talk(scene.client, listener, type, where));
    }
  }
}

// An attack by a neighbour: it has no 127.0.0.1 of its own, and sends its packets for that address to the
// node.
TEST_CASE("REL-50 localhost's node ports are not reached from the wire") {
  LocalhostScene scene;
  scene.outside.run(
      "sysctl -qw net.ipv4.conf.all.route_localnet=1 && ip address del 127.0.0.1/8 dev lo && "
      "ip route add 127.0.0.1/32 via 192.0.2.1 dev eth0 src 192.0.2.100 && ip address del ::1/128 dev lo && "
      "ip route add ::1/128 via 2001:db8:1::1 dev eth0 src 2001:db8:1::100");
  for (const int family : {AF_INET, AF_INET6}) {
    for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
      INFO((family == AF_INET ? "IPv4 " : "IPv6 ") << (type == SOCK_STREAM ? "TCP" : "UDP"));
      const auto backend = scene.offer(family, type == SOCK_STREAM ? LB_TCP : LB_UDP);
      const auto listener = serve_at(scene.server, type, backend);
      const auto client = scene.outside.socket(family, type);
      const auto rose = counter_deltas(
          *scene.writer, [&] { knock(client, listener, type, end(loopback(family), node_port)); });
      CHECK(rose.new_local + rose.new_remote == 0);
      CHECK(rose.martian > 0);
    }
  }
}

}  // namespace lb::test
