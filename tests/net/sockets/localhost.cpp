// SPDX-License-Identifier: Apache-2.0
// Node ports on localhost: they serve the node's own processes, in both families, and no host on the network
// (SEM-35, choice B, REL-50). An unspecified destination is localhost, as the kernel makes it.
#include <fcntl.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <string>
#include <utility>

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

namespace {

/// An unspecified destination, and the address that the kernel connects to instead.
struct Unspecified {
  const char* name;
  int socket_family;
  const char* asked;
  const char* becomes;
};
constexpr Unspecified unspecified[] = {{"0.0.0.0", AF_INET, "0.0.0.0", "127.0.0.1"},
                                       {"::", AF_INET6, "::", "::1"},
                                       {"::ffff:0.0.0.0", AF_INET6, "0.0.0.0", "127.0.0.1"}};

enum class Call : std::uint8_t { tcp_connect, udp_connect, sendmsg };
constexpr std::pair<Call, const char*> calls[] = {
    {Call::tcp_connect, "TCP connect"}, {Call::udp_connect, "UDP connect"}, {Call::sendmsg, "sendmsg"}};

int type_of(Call call) { return call == Call::tcp_connect ? SOCK_STREAM : SOCK_DGRAM; }

/// Whether a call to `where` reaches the listener, and the socket is shown `peer` as its peer.
bool reaches(const Socket& socket, Call call, const Socket& listener, const End& where, const End& peer) {
  if (call == Call::tcp_connect) {
    return socket.connect(where) == 0 && listener.accept() && socket.peer() == peer;
  }
  const int error = call == Call::sendmsg
                        ? socket.send_to(where, "words")
                        : (socket.connect(where) != 0 ? ECONNREFUSED : socket.send("words"));
  if (error != 0 || (call == Call::udp_connect && socket.peer() != peer) || !echo_once(listener)) {
    return false;
  }
  const auto answer = socket.receive();
  return answer && answer->from == peer;
}

/// Runs the test for each unspecified destination and each call.
template <class Test>
void each_unspecified(Test test) {
  for (const auto& address : unspecified) {
    for (const auto& [call, name] : calls) {
      INFO(name << " to " << address.name);
      test(address, call);
    }
  }
}

int family_of(const Unspecified& address) {
  return end(address.asked, 0).address.family() == k8s::Family::ipv4 ? AF_INET : AF_INET6;
}

}  // namespace

TEST_CASE(
    "SEM-35 REL-50 to the node's processes an unspecified destination is localhost and its node ports") {
  LocalhostScene scene;
  each_unspecified([&](const Unspecified& address, Call call) {
    const int family = family_of(address);
    const auto backend = scene.offer(family, type_of(call) == SOCK_STREAM ? LB_TCP : LB_UDP);
    const auto where = end(address.asked, node_port);
    const auto localhost = end(address.becomes, node_port);
    const auto pod = serve_at(scene.server, type_of(call), backend);
    const auto rose = counter_deltas(*scene.writer, [&] {
      const Socket socket(address.socket_family, type_of(call));
      CHECK(reaches(socket, call, pod, where, localhost));
    });
    CHECK(rose.socket_translated == 1);
    // Where localhost serves no node ports, the process at that port is reached.
    scene.writer->address(address.becomes, LB_NODE_ADDRESS);
    const auto own = serve_at(Host::here(), type_of(call), localhost);
    const Socket socket(address.socket_family, type_of(call));
    CHECK(reaches(socket, call, own, where, localhost));
    scene.writer->address(address.becomes, LB_LOOPBACK_ADDRESS);
  });
}

TEST_CASE("SEM-35 REL-50 a pod's unspecified destination is the pod itself, never a node port") {
  LocalhostScene scene;
  each_unspecified([&](const Unspecified& address, Call call) {
    static_cast<void>(scene.offer(family_of(address), type_of(call) == SOCK_STREAM ? LB_TCP : LB_UDP));
    const auto localhost = end(address.becomes, node_port);
    const auto own = serve_at(scene.client, type_of(call), localhost);
    const auto socket = scene.client.socket(address.socket_family, type_of(call));
    const auto rose = counter_deltas(
        *scene.writer, [&] { CHECK(reaches(socket, call, own, end(address.asked, node_port), localhost)); });
    CHECK(rose.socket_translated == 0);
  });
}

// For IPv4 the kernel takes the socket's own address, if it has one.
TEST_CASE("SEM-35 a bound socket's unspecified destination is its own address") {
  LocalhostScene scene;
  const auto& known = names(AF_INET);
  for (const int socket_family : {AF_INET, AF_INET6}) {
    for (const auto& [call, name] : calls) {
      INFO(name << (socket_family == AF_INET ? " IPv4" : " IPv4 by an IPv6 socket"));
      const auto backend = scene.offer(AF_INET, type_of(call) == SOCK_STREAM ? LB_TCP : LB_UDP);
      const auto itself = end(known.node, node_port);
      const auto where = end("0.0.0.0", node_port);
      scene.writer->address(known.node, LB_NODE_ADDRESS);
      {
        const auto own = serve_at(Host::here(), type_of(call), itself);
        const Socket socket(socket_family, type_of(call));
        REQUIRE(socket.bind(end(known.node, 0)) == 0);
        CHECK(reaches(socket, call, own, where, itself));
      }
      scene.writer->address(known.node, LB_NODE_PORT_ADDRESS);
      const auto pod = serve_at(scene.server, type_of(call), backend);
      const Socket socket(socket_family, type_of(call));
      REQUIRE(socket.bind(end(known.node, 0)) == 0);
      CHECK(reaches(socket, call, pod, where, itself));
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
