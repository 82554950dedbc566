// SPDX-License-Identifier: Apache-2.0
// Sockets of processes that move to other network namespaces and cgroups, and sockets that were restored from
// a checkpoint: docs/threats.md, "Sockets".
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "tests/net/lib/socket_stage.hpp"

namespace lb::test {
namespace {

/// Runs `act` in the namespace, in a separate thread.
void in(const Namespace& other, const std::function<void()>& act) {
  std::jthread([&] {
    other.enter();
    act();
  });
}

/// The source of the reply to a message to `where`, or to the connected peer; "" without a reply.
std::string answer_to(const Socket& client, const Socket& server, const End& where) {
  const int failed = client.peer() ? client.send("who?") : client.send_to(where, "who?");
  if (failed != 0 || !echo_once(server)) {
    return {};
  }
  const auto answer = client.receive();
  return answer ? text(answer->from) : std::string();
}

/// A cgroup below the lab's, for as long as it is not removed.
class Child {
 public:
  explicit Child(const Lab& lab) : path_(lab.cgroup() + "/child") {
    REQUIRE(::mkdir(path_.c_str(), 0755) == 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { remove(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  bool remove() const { return ::rmdir(path_.c_str()) == 0; }

 private:
  std::string path_;
};

/// One direction of a connection, as the kernel returns and restores it in repair mode.
struct Direction {
  int queue;
  std::uint32_t sequence = 0;
};

bool set(const Socket& socket, int option, int value) {
  return ::setsockopt(socket.fd(), IPPROTO_TCP, option, &value, sizeof(value)) == 0;
}

/// Reads both directions, receiving and sending. Leaves the socket in repair mode, so that closing it sends
/// nothing to the peer.
std::array<Direction, 2> checkpoint(const Socket& socket) {
  std::array<Direction, 2> both{{{TCP_RECV_QUEUE}, {TCP_SEND_QUEUE}}};
  REQUIRE(set(socket, TCP_REPAIR, 1));
  for (auto& each : both) {
    socklen_t size = sizeof(each.sequence);
    REQUIRE(set(socket, TCP_REPAIR_QUEUE, each.queue));
    REQUIRE(::getsockopt(socket.fd(), IPPROTO_TCP, TCP_QUEUE_SEQ, &each.sequence, &size) == 0);
  }
  return both;
}

/// Restores the checkpointed connection from `own` to `peer` in `socket`.
void restore(const Socket& socket, const std::array<Direction, 2>& both, const End& own, const End& peer) {
  REQUIRE(set(socket, TCP_REPAIR, 1));
  REQUIRE(socket.bind(own) == 0);
  for (const auto& each : both) {
    REQUIRE(set(socket, TCP_REPAIR_QUEUE, each.queue));
    REQUIRE(set(socket, TCP_QUEUE_SEQ, static_cast<int>(each.sequence)));
  }
  REQUIRE(socket.connect(peer) == 0);
  REQUIRE(set(socket, TCP_REPAIR, 0));
}

}  // namespace

TEST_CASE("a socket stays in the network namespace that it was made in, wherever its process goes") {
  struct Local {
    int family;
    const char* address;
    const char* backend;
  };
  const auto& [family, address, backend] =
      GENERATE(values<Local>({{AF_INET, "127.0.0.1", "10.1.0.1"}, {AF_INET6, "::1", "fd00:1::1"}}));
  const auto connected = GENERATE(false, true);
  INFO(address << (connected ? ", connected" : ""));
  SocketStage stage;
  const auto local = end(address, 30080);
  stage.writer->service(web, {{1, end(backend, backend_port)}});
  stage.writer->node_port(local.address, local.port, LB_UDP, web);
  stage.writer->address(address, LB_LOOPBACK_ADDRESS);
  const auto pod = Namespace::fresh();
  const auto server = udp_server(backend);
  const Socket of_host(family, SOCK_DGRAM);
  std::optional<Socket> of_pod;

  in(pod, [&] {
    of_pod.emplace(family, SOCK_DGRAM);
    if (connected) {
      REQUIRE(of_host.connect(local) == 0);
    }
    CHECK(answer_to(of_host, server, local) == text(local));
  });
  const auto counted = counter_deltas(*stage.writer, [&] {
    static_cast<void>(connected ? of_pod->connect(local) : of_pod->send_to(local, "who?"));
  });
  CHECK(counted.socket_unrelated == 1);
  CHECK_FALSE((connected && of_pod->send("who?") == 0 && echo_once(server)));
  CHECK_FALSE(echo_once(server));
}

TEST_CASE("a socket keeps its pairs when its process leaves the served cgroup, and when that is removed") {
  const auto& address_case = GENERATE(from_range(address_cases));
  const auto connected = GENERATE(false, true);
  INFO(address_case.name << (connected ? ", connected" : ""));
  SocketStage stage;
  stage.serve(address_case, LB_UDP);
  const auto service = end(address_case.frontend, service_port);
  const auto server = udp_server(address_case.first_backend);
  const Child child(stage.lab);
  stage.lab.enter_cgroup(child.path());
  const Socket client(address_case.socket_family, SOCK_DGRAM);
  if (connected) {
    REQUIRE(client.connect(service) == 0);
  }
  CHECK(answer_to(client, server, service) == text(service));

  const auto outside = stage.lab.make_cgroup("outside");
  stage.lab.enter_cgroup(outside);
  CHECK(answer_to(client, server, service) == text(service));
  REQUIRE(child.remove());
  CHECK(answer_to(client, server, service) == text(service));

  // The programs of the removed cgroup are replaced, too.
  stage.datapath.reset();
  stage.datapath.emplace(agent::Datapath::open(stage.options));
  REQUIRE(stage.datapath->attach().failure().empty());
  const auto kept = counter_deltas(*stage.writer, [&] {
    CHECK(answer_to(client, server, service) == text(service));
    CHECK((!connected || client.peer() == service));
  });
  CHECK(kept.socket_kept == (connected ? 0 : 1));  // messages of a connected socket are sent without a lookup
  stage.lab.enter_cgroup(stage.lab.cgroup());
}

TEST_CASE("a socket that was made outside of the served cgroup is not served when its process enters it") {
  const auto& address_case = GENERATE(from_range(address_cases));
  const auto connected = GENERATE(false, true);
  INFO(address_case.name << (connected ? ", connected" : ""));
  SocketStage stage;
  stage.serve(address_case, LB_UDP);
  const auto service = end(address_case.frontend, service_port);
  stage.lab.enter_cgroup(stage.lab.make_cgroup("outside"));
  const Socket client(address_case.socket_family, SOCK_DGRAM);
  stage.lab.enter_cgroup(stage.lab.cgroup());
  const auto counted = counter_deltas(*stage.writer, [&] {
    static_cast<void>(connected ? client.connect(service) : client.send_to(service, "who?"));
  });
  CHECK(counted.socket_translated == 0);
  CHECK(counted.socket_unrelated == 0);
}

TEST_CASE("a connection that is restored from a checkpoint goes on, and its peer is the backend then") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SocketStage stage;
  stage.serve(address_case, LB_TCP);
  // Options that a complete checkpoint would also restore.
  shell("sysctl -qw net.ipv4.tcp_timestamps=0 net.ipv4.tcp_window_scaling=0 net.ipv4.tcp_sack=0");
  const auto backend = end(address_case.first_backend, backend_port);
  const Socket server = tcp_server(address_case.first_backend);
  std::optional<Socket> client(std::in_place, address_case.socket_family, SOCK_STREAM);
  REQUIRE(client->connect(end(address_case.frontend, service_port)) == 0);
  const maps::Fd taken(::accept4(server.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  const auto own = client->name();
  REQUIRE(own);
  const auto both = checkpoint(*client);
  client.reset();

  const Socket restored(address_case.socket_family, SOCK_STREAM);
  const auto counted = counter_deltas(*stage.writer, [&] { restore(restored, both, *own, backend); });
  CHECK(counted.socket_unrelated == 1);
  CHECK(restored.peer() == backend);
  REQUIRE(restored.send("words") == 0);
  std::array<char, 8> words{};
  CHECK(::recv(taken.get(), words.data(), words.size(), 0) == 5);
}

}  // namespace lb::test
