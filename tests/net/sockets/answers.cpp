// SPDX-License-Identifier: Apache-2.0
// What a UDP socket answers: an address that a tenant may claim (external IP, load balancer, node port) meets
// new traffic only, not a conversation that a peer began, or that the socket began before the claim.
#include <bpf/bpf.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/net/lib/socket_stage.hpp"

namespace lb::test {
namespace {

/// The victim's address and port, on which it writes to others, and which a tenant claims.
struct Claim {
  const char* name;
  int server_family;
  const char* server;
  const char* victim;
  const char* thief;
};

const std::vector<Claim> claims = {
    {"IPv4", AF_INET, "10.1.0.3", "10.1.0.2", "10.1.0.1"},
    {"IPv6", AF_INET6, "fd00:1::3", "fd00:1::2", "fd00:1::1"},
    {"IPv4 by an IPv6 socket", AF_INET6, "10.1.0.3", "10.1.0.2", "10.1.0.1"},
};

constexpr std::uint16_t victim_port = 40000;
constexpr std::uint16_t server_port = 5353;

enum class Endpoints : std::uint8_t { one, none };

Socket udp_at(int family, const End& where) {
  Socket socket(family, SOCK_DGRAM);
  REQUIRE(socket.bind(where) == 0);
  return socket;
}

/// How a process reads a datagram and its sender. Returns the sender; nullopt without a datagram.
using Read = std::function<std::optional<End>(const Socket&)>;

std::optional<End> by_recvfrom(const Socket& socket) {
  const auto message = socket.receive();
  return message ? std::optional(message->from) : std::nullopt;
}

struct Arrival {
  std::array<char, 64> words{};
  sockaddr_storage from{};
  iovec buffer{words.data(), words.size()};
  msghdr head() {
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof(from);
    message.msg_iov = &buffer;
    message.msg_iovlen = 1;
    return message;
  }
};

std::optional<End> by_recvmsg(const Socket& socket) {
  Arrival arrival;
  auto message = arrival.head();
  if (!is_readable(socket.fd(), std::chrono::seconds(1)) || ::recvmsg(socket.fd(), &message, 0) < 0) {
    return {};
  }
  return end_of(arrival.from);
}

std::optional<End> by_recvmmsg(const Socket& socket) {
  Arrival arrival;
  mmsghdr message{arrival.head(), 0};
  if (!is_readable(socket.fd(), std::chrono::seconds(1)) ||
      ::recvmmsg(socket.fd(), &message, 1, 0, nullptr) != 1) {
    return {};
  }
  return end_of(arrival.from);
}

/// Like a server that looks first: recvfrom with MSG_PEEK, then read() without an address.
std::optional<End> by_peeking(const Socket& socket) {
  Arrival arrival;
  socklen_t size = sizeof(arrival.from);
  if (!is_readable(socket.fd(), std::chrono::seconds(1)) ||
      ::recvfrom(socket.fd(), arrival.words.data(), arrival.words.size(), MSG_PEEK,
                 reinterpret_cast<sockaddr*>(&arrival.from), &size) < 0 ||
      ::read(socket.fd(), arrival.words.data(), arrival.words.size()) < 0) {
    return {};
  }
  return end_of(arrival.from);
}

struct NamedRead {
  const char* name;
  Read read;
};

const std::vector<NamedRead> reads = {{"recvfrom", by_recvfrom},
                                      {"recvmsg", by_recvmsg},
                                      {"recvmmsg", by_recvmmsg},
                                      {"MSG_PEEK, then read", by_peeking}};

/// A server, a victim that writes to it, and a tenant's endpoint to which the victim's address may lead.
struct Theft {
  explicit Theft(const Claim& what)
      : claim(what),
        victim(udp_at(family_of(claim.victim), victim_end())),
        thief(udp_at(family_of(claim.thief), end(claim.thief, backend_port))) {
    shell("ip address add 10.1.0.3/32 dev lo && ip address add fd00:1::3/128 nodad dev lo");
    shell(await_local_route("fd00:1::3"));
  }

  /// Another victim, on the next port, and another Service for its claim.
  void renew() {
    ++port;
    ++service;
    victim = udp_at(family_of(claim.victim), victim_end());
  }

  [[nodiscard]] End victim_end() const { return end(claim.victim, port); }
  [[nodiscard]] End server_end() const { return end(claim.server, server_port); }
  [[nodiscard]] Socket server() const { return udp_at(claim.server_family, server_end()); }

  /// The same, of a socket whose port no other one may have: bind() of the tests sets SO_REUSEADDR.
  [[nodiscard]] Socket lone_server() const {
    auto socket = server();
    const int no = 0;
    REQUIRE(::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &no, sizeof(no)) == 0);
    return socket;
  }

  /// The tenant claims the victim's address and port, as such a kind of address.
  void claimed(lb_kind kind = LB_EXTERNAL_IP, Endpoints endpoints = Endpoints::one) {
    std::vector<BackendSpec> backends;
    if (endpoints == Endpoints::one) {
      backends.push_back({service, end(claim.thief, backend_port)});
    }
    stage.writer->service(service, backends);
    if (kind == LB_NODE_PORT) {
      stage.writer->node_port(victim_end().address, port, LB_UDP, service);
      stage.writer->address(claim.victim, LB_NODE_PORT_ADDRESS);
    } else {
      stage.writer->frontend(victim_end(), LB_UDP, service, kind);
    }
  }

  /// Whether what `socket` sends to the victim's address reaches the victim, and not the tenant.
  [[nodiscard]] bool reaches_victim(const std::function<int()>& send) const {
    if (send() != 0) {
      return false;
    }
    return is_readable(victim.fd(), std::chrono::seconds(1)) && victim.receive() &&
           !is_readable(thief.fd(), std::chrono::milliseconds(0));
  }
  [[nodiscard]] bool reaches_victim(const Socket& socket) const {
    return reaches_victim([&] { return socket.send_to(victim_end(), "answer"); });
  }
  /// Whether it is translated: reaches the service's endpoint.
  [[nodiscard]] bool reaches_service(const std::function<int()>& send) const {
    if (send() != 0) {
      return false;
    }
    return is_readable(thief.fd(), std::chrono::seconds(1)) && thief.receive().has_value();
  }
  [[nodiscard]] bool reaches_service(const Socket& socket) const {
    return reaches_service([&] { return socket.send_to(victim_end(), "ask"); });
  }

  /// Makes what the socket has noted older.
  void age(const Socket& socket, std::uint32_t seconds) const {
    const maps::Fd sockets(bpf_obj_get(maps::Pins(stage.lab.pins()).map("lb_sockets").c_str()));
    const int key = socket.fd();
    lb_socket storage{};
    REQUIRE(bpf_map_lookup_elem(sockets.get(), &key, &storage) == 0);
    storage.direct.begun -= seconds;
    REQUIRE(bpf_map_update_elem(sockets.get(), &key, &storage, BPF_EXIST) == 0);
  }

  SocketStage stage;
  Claim claim;
  std::uint16_t port = victim_port;
  std::uint32_t service = web;
  Socket victim, thief;
};

}  // namespace

TEST_CASE("SEM-130 what a UDP server answers goes to the peer that wrote, not to who claims its address") {
  const auto& claim = GENERATE(from_range(claims));
  Theft theft(claim);
  for (const auto& how : reads) {
    for (const auto kind : {LB_EXTERNAL_IP, LB_LOAD_BALANCER, LB_NODE_PORT}) {
      for (const auto endpoints : {Endpoints::one, Endpoints::none}) {
        INFO(claim.name << ", " << how.name << ", kind " << kind
                        << (endpoints == Endpoints::one ? "" : ", no endpoint"));
        theft.renew();
        theft.claimed(kind, endpoints);
        const auto server = theft.server();
        REQUIRE(theft.victim.send_to(theft.server_end(), "ask") == 0);
        CHECK(how.read(server) == theft.victim_end());
        const auto counted = counter_deltas(*theft.stage.writer, [&] {
          CHECK(theft.reaches_victim(server));
          CHECK(theft.reaches_victim(server));
        });
        CHECK(counted.socket_direct == 2);
      }
    }
  }
}

TEST_CASE("SEM-130 what a server answers stays an answer when the peer's address is claimed in between") {
  const auto& claim = GENERATE(from_range(claims));
  Theft theft(claim);
  for (const auto& how : reads) {
    INFO(claim.name << ", " << how.name);
    theft.renew();
    const auto server = theft.server();
    REQUIRE(theft.victim.send_to(theft.server_end(), "ask") == 0);
    CHECK(how.read(server) == theft.victim_end());
    theft.claimed();
    CHECK(theft.reaches_victim(server));
  }
}

TEST_CASE("SEM-130 a server that connects to the peer that wrote is connected to it") {
  const auto& claim = GENERATE(from_range(claims));
  Theft theft(claim);
  for (const auto& how : reads) {
    INFO(claim.name << ", " << how.name);
    theft.renew();
    theft.claimed();
    const auto reader = theft.server();
    REQUIRE(theft.victim.send_to(theft.server_end(), "ask") == 0);
    REQUIRE(how.read(reader) == theft.victim_end());
    const auto other = theft.server();
    CHECK(theft.reaches_victim(other));  // another socket of the port answers unconnected
    for (const auto* socket : {&other, &reader}) {
      REQUIRE(socket->connect(theft.victim_end()) == 0);
      CHECK(theft.reaches_victim([&] { return socket->send("answer"); }));
      CHECK(theft.reaches_victim(*socket));
    }
  }
}

TEST_CASE("SEM-131 a conversation that the socket began before the claim stays") {
  const auto& claim = GENERATE(from_range(claims));
  INFO(claim.name);
  Theft theft(claim);
  const auto client = theft.server();
  SECTION("answered, read with the sender's address") {
    CHECK(theft.reaches_victim(client));
    REQUIRE(theft.victim.send_to(theft.server_end(), "answer") == 0);
    REQUIRE(by_recvfrom(client) == theft.victim_end());
    theft.claimed();
    CHECK(theft.reaches_victim(client));
  }
  SECTION("answered, read without an address") {
    CHECK(theft.reaches_victim(client));
    REQUIRE(theft.victim.send_to(theft.server_end(), "answer") == 0);
    std::array<char, 16> words{};
    REQUIRE(::recv(client.fd(), words.data(), words.size(), 0) == 6);
    theft.claimed();
    CHECK(theft.reaches_victim(client));
  }
  SECTION("one way") {
    CHECK(theft.reaches_victim(client));
    theft.claimed();
    CHECK(theft.reaches_victim(client));
  }
  SECTION("connected, and then a message with an address") {
    REQUIRE(client.connect(theft.victim_end()) == 0);
    CHECK(theft.reaches_victim([&] { return client.send("ask"); }));
    theft.claimed();
    CHECK(theft.reaches_victim([&] { return client.send("ask"); }));
    CHECK(theft.reaches_victim(client));
  }
}

TEST_CASE("SEM-131 new traffic to an external address is served, also of sockets that talk to others") {
  const auto& claim = GENERATE(from_range(claims));
  const auto kind = GENERATE(LB_EXTERNAL_IP, LB_NODE_PORT);
  INFO(claim.name << ", kind " << kind);
  Theft theft(claim);
  theft.claimed(kind);
  {
    INFO("a client that is bound before it sends");
    const auto client = theft.server();
    CHECK(theft.reaches_service(client));
    CHECK(theft.reaches_service(client));
  }
  {
    INFO("a client that is bound before it connects");
    const auto client = theft.server();
    REQUIRE(client.connect(theft.victim_end()) == 0);
    CHECK(theft.reaches_service([&] { return client.send("ask"); }));
    CHECK(client.peer() == theft.victim_end());
  }
  {
    INFO("one socket for many servers, some of which write first");
    const auto bystander = udp_at(family_of(claim.victim), end(claim.victim, victim_port + 1));
    const auto client = theft.server();
    for (std::uint16_t port = 1000; port < 1030; ++port) {
      static_cast<void>(client.send_to(end(claim.victim, port), "ask"));
    }
    REQUIRE(bystander.send_to(theft.server_end(), "news") == 0);
    REQUIRE(by_recvfrom(client));
    CHECK(theft.reaches_service(client));
    CHECK(theft.reaches_service(client));
  }
  INFO("a pod whose device is not served");
  const auto pod = Namespace::fresh();
  std::jthread([&] {
    pod.enter();
    const Socket client(claim.server_family, SOCK_DGRAM);
    const auto counted = counter_deltas(
        *theft.stage.writer, [&] { static_cast<void>(client.send_to(theft.victim_end(), "ask")); });
    CHECK(counted.socket_translated == 1);
  });
}

TEST_CASE(
    "SEM-131 what nobody answered is new after some minutes, and what follows a peer's message goes on") {
  constexpr std::uint32_t generation = 120;
  const auto& claim = GENERATE(from_range(claims));
  INFO(claim.name);
  Theft theft(claim);
  const auto socket = theft.lone_server();
  SECTION("a sender that nobody answers") {
    CHECK(theft.reaches_victim(socket));
    theft.claimed();
    theft.age(socket, generation);
    CHECK(theft.reaches_victim(socket));
    theft.age(socket, generation);
    CHECK(theft.reaches_service(socket));
  }
  SECTION("a sender to a peer that wrote once") {
    theft.claimed();
    REQUIRE(theft.victim.send_to(theft.server_end(), "ask") == 0);
    REQUIRE(by_recvfrom(socket));
    for (int round = 0; round < 4; ++round) {
      theft.age(socket, generation);
      CHECK(theft.reaches_victim(socket));
    }
  }
  SECTION("a server that was silent") {
    theft.claimed();
    REQUIRE(theft.victim.send_to(theft.server_end(), "ask") == 0);
    REQUIRE(by_recvfrom(socket));
    theft.age(socket, 2 * generation);
    CHECK(theft.reaches_service(socket));
  }
}

TEST_CASE("SEM-130 a flood of senders does not make a server forget to whom it answers") {
  const auto& claim = GENERATE(from_range(claims));
  INFO(claim.name);
  Theft theft(claim);
  theft.claimed();
  const auto server = theft.server();
  REQUIRE(theft.victim.send_to(theft.server_end(), "ask") == 0);
  REQUIRE(by_recvfrom(server));
  for (std::uint16_t port = 10'000; port < 20'000; ++port) {
    const auto other = udp_at(family_of(claim.victim), end(claim.victim, port));
    REQUIRE(other.send_to(theft.server_end(), "x") == 0);
    REQUIRE(by_recvfrom(server));
  }
  CHECK(theft.reaches_victim(server));
}

TEST_CASE("SEM-130 a ClusterIP is served whoever wrote before: nobody else may have its address") {
  Theft theft(claims.front());
  theft.claimed(LB_CLUSTER_IP);
  const auto server = theft.server();
  REQUIRE(theft.victim.send_to(theft.server_end(), "ask") == 0);
  REQUIRE(by_recvfrom(server));
  CHECK(theft.reaches_service(server));
}

}  // namespace lb::test
