// SPDX-License-Identifier: Apache-2.0
// The socket pairs that a socket remembers, which give its replies and its peer the service's address.
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "tests/net/lib/socket_stage.hpp"

namespace lb::test {
namespace {

/// An address for another service: the first service's with another last digit.
std::string sibling(const char* address, int number) {
  std::string other(address);
  other.back() = static_cast<char>('0' + number);
  return other;
}

/// UDP services 1 to `count`, at addresses with that last digit, all with the case's first backend only.
struct SharedBackend {
  SharedBackend(SocketStage& stage, const AddressCase& address_case, int count)
      : case_(address_case),
        server(udp_server(address_case.first_backend)),
        client(address_case.socket_family, SOCK_DGRAM) {
    for (int number = 1; number <= count; ++number) {
      const auto id = static_cast<std::uint32_t>(number);
      stage.writer->service(id, {{id, backend()}});
      stage.writer->frontend(service(number), LB_UDP, id);
    }
  }

  [[nodiscard]] End service(int number) const { return end(sibling(case_.frontend, number), service_port); }
  [[nodiscard]] End backend() const { return end(case_.first_backend, backend_port); }

  /// The source of the reply to a message to `where`; "" without a reply.
  [[nodiscard]] std::string answer_to(const End& where) const {
    if (client.send_to(where, "who?") != 0 || !echo_once(server)) {
      return {};
    }
    return heard();
  }
  [[nodiscard]] std::string heard() const {
    const auto answer = client.receive();
    return answer ? text(answer->from) : std::string();
  }

 private:
  const AddressCase& case_;

 public:
  Socket server, client;
};

}  // namespace

TEST_CASE("one UDP socket, two services with one endpoint: the service that was asked last answers") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SocketStage stage;
  const SharedBackend shared(stage, address_case, 2);
  for (const int number : {1, 2, 1, 1, 2}) {
    CHECK(shared.answer_to(shared.service(number)) == text(shared.service(number)));
  }
}

TEST_CASE("a UDP socket remembers the services that it used last, as many as it has room for") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SocketStage stage;
  const SharedBackend shared(stage, address_case, LB_SOCKET_PAIRS + 1);
  const auto ask = [&](int number) {
    return counter_deltas(*stage.writer, [&] {
      CHECK(shared.answer_to(shared.service(number)) == text(shared.service(number)));
    });
  };
  for (int number = 1; number <= LB_SOCKET_PAIRS; ++number) {
    ask(number);
  }
  CHECK(ask(1).socket_kept == 1);                          // now the second is the least recently used one,
  CHECK(ask(LB_SOCKET_PAIRS + 1).socket_translated == 1);  // so a new one replaces it
  for (const int number : {1, 3, LB_SOCKET_PAIRS, LB_SOCKET_PAIRS + 1}) {
    CHECK(ask(number).socket_kept == 1);
  }
  CHECK(ask(2).socket_translated == 1);
}

TEST_CASE("an unconnected UDP socket that speaks to a service and to its backend: the latest counts") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SocketStage stage;
  const SharedBackend shared(stage, address_case, 2);
  const auto service = shared.service(1);
  const auto backend = shared.backend();
  SECTION("the service first") {
    CHECK(shared.answer_to(service) == text(service));
    for (int round = 0; round < 2; ++round) {
      CHECK(shared.answer_to(backend) == text(backend));
    }
    CHECK(shared.answer_to(service) == text(service));
    CHECK(shared.answer_to(backend) == text(backend));
  }
  SECTION("the backend first") {
    CHECK(shared.answer_to(backend) == text(backend));
    CHECK(shared.answer_to(service) == text(service));
    CHECK(shared.answer_to(backend) == text(backend));
  }
  SECTION("two services and the backend") {
    CHECK(shared.answer_to(service) == text(service));
    CHECK(shared.answer_to(shared.service(2)) == text(shared.service(2)));
    CHECK(shared.answer_to(backend) == text(backend));
    CHECK(shared.answer_to(service) == text(service));
    CHECK(shared.answer_to(backend) == text(backend));
  }
  SECTION("what is under way when the other one is spoken to has its name") {
    REQUIRE(shared.client.send_to(service, "one") == 0);
    REQUIRE(shared.client.send_to(backend, "two") == 0);
    REQUIRE(echo_once(shared.server));
    REQUIRE(echo_once(shared.server));
    CHECK(shared.heard() == text(backend));
    CHECK(shared.heard() == text(backend));
  }
  SECTION("the service's backend is kept all the same") {
    CHECK(shared.answer_to(service) == text(service));
    CHECK(shared.answer_to(backend) == text(backend));
    CHECK(counter_deltas(*stage.writer, [&] {
            CHECK(shared.answer_to(service) == text(service));
          }).socket_kept == 1);
  }
}

TEST_CASE("a connected UDP socket's peer is the service that it connected to, wherever else it sends") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SocketStage stage;
  const SharedBackend shared(stage, address_case, 2);
  const auto service = shared.service(1);
  REQUIRE(shared.client.connect(service) == 0);
  CHECK(shared.answer_to(shared.service(2)) == text(shared.service(2)));
  CHECK(shared.client.peer() == service);
  CHECK(shared.answer_to(service) == text(service));
  CHECK(shared.answer_to(shared.backend()) == text(service));  // a message to its peer, for the kernel
  CHECK(shared.client.peer() == service);
}

TEST_CASE("a UDP socket that was disconnected knows the service that it was connected to") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SocketStage stage;
  const SharedBackend shared(stage, address_case, 1);
  const auto service = shared.service(1);
  REQUIRE(shared.client.connect(service) == 0);
  REQUIRE(shared.client.send("late") == 0);
  const sockaddr none{.sa_family = AF_UNSPEC, .sa_data = {}};
  REQUIRE(::connect(shared.client.fd(), &none, sizeof(none)) == 0);
  CHECK_FALSE(shared.client.peer());
  CHECK(counter_deltas(*stage.writer, [&] { CHECK(shared.answer_to(service).empty()); }).socket_kept == 1);
  CHECK(shared.answer_to(shared.backend()) == text(shared.backend()));
}

TEST_CASE("a socket that a child inherited is the same socket") {
  SocketStage stage;
  const SharedBackend shared(stage, address_cases.front(), 2);
  CHECK(shared.answer_to(shared.service(1)) == text(shared.service(1)));
  const auto child = ::fork();
  if (child == 0) {
    ::_exit(shared.answer_to(shared.service(2)) == text(shared.service(2)) ? 0 : 1);
  }
  int status = 1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(shared.answer_to(shared.service(1)) == text(shared.service(1)));
}

TEST_CASE("an MPTCP socket's peer is the service") {
  const auto& address_case = GENERATE(from_range(address_cases));
  const int server_protocol = GENERATE(values<int>({IPPROTO_TCP, IPPROTO_MPTCP}));
  INFO(address_case.name << ", a server of protocol " << server_protocol);
  SocketStage stage;
  stage.serve(address_case, LB_TCP);
  const Socket server(family_of(address_case.first_backend), SOCK_STREAM, server_protocol);
  REQUIRE(server.bind(end(address_case.first_backend, backend_port)) == 0);
  REQUIRE(server.listen() == 0);
  const Socket client(address_case.socket_family, SOCK_STREAM, IPPROTO_MPTCP);
  const auto counted = counter_deltas(*stage.writer, [&] {
    CHECK(client.connect(end(address_case.frontend, service_port)) == 0);
    CHECK(server.accept());
    CHECK(client.peer() == end(address_case.frontend, service_port));
  });
  CHECK(counted.socket_translated == 1);
  CHECK(counted.socket_restored == 1);
}

TEST_CASE(
    "an MPTCP connection's further subflows go where the kernel says, and leave the peer's name alone") {
  SocketStage stage;
  const auto& address_case = address_cases.front();
  stage.serve(address_case, LB_TCP);
  shell("ip mptcp limits set subflows 2 && ip mptcp endpoint add 10.1.0.2 dev lo subflow");
  const Socket server(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);
  REQUIRE(server.bind(end(address_case.first_backend, backend_port)) == 0);
  REQUIRE(server.listen() == 0);
  const Socket client(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);
  const auto counted = counter_deltas(*stage.writer, [&] {
    REQUIRE(client.connect(end(address_case.frontend, service_port)) == 0);
    const maps::Fd taken(::accept4(server.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    // The kernel joins subflows only after data has shown that both ends support MPTCP.
    REQUIRE(client.send("words") == 0);
    std::array<char, 8> words{};
    REQUIRE(::recv(taken.get(), words.data(), words.size(), 0) == 5);
    REQUIRE(::send(taken.get(), "words", 5, MSG_NOSIGNAL) == 5);
    REQUIRE(::recv(client.fd(), words.data(), words.size(), 0) == 5);
    shell("timeout 10 sh -c 'until ss -Htn src 10.1.0.2 dst 10.1.0.1 | grep -q ESTAB; do sleep 0.05; done'");
    CHECK(client.peer() == end(address_case.frontend, service_port));
  });
  CHECK(counted.socket_translated == 1);
  CHECK(counted.socket_unrelated >= 1);  // one for each subflow that joins
}

TEST_CASE("TCP Fast Open's first message goes to a backend, and its peer is the service") {
  const auto& address_case = GENERATE(from_range(address_cases));
  const int protocol = GENERATE(values<int>({IPPROTO_TCP, IPPROTO_MPTCP}));
  INFO(address_case.name << ", protocol " << protocol);
  SocketStage stage;
  stage.serve(address_case, LB_TCP);
  shell("sysctl -qw net.ipv4.tcp_fastopen=0x603");  // client and server, without cookies
  const Socket server(family_of(address_case.first_backend), SOCK_STREAM, protocol);
  REQUIRE(server.bind(end(address_case.first_backend, backend_port)) == 0);
  REQUIRE(server.listen() == 0);
  const int room = 8;
  REQUIRE(::setsockopt(server.fd(), IPPROTO_TCP, TCP_FASTOPEN, &room, sizeof(room)) == 0);
  const Socket client(address_case.socket_family, SOCK_STREAM, protocol);
  const auto counted = counter_deltas(*stage.writer, [&] {
    CHECK(client.send_to(end(address_case.frontend, service_port), "hello", MSG_FASTOPEN) == 0);
  });
  CHECK(counted.socket_translated == 1);
  const maps::Fd taken(::accept4(server.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  std::array<char, 8> words{};
  CHECK(::recv(taken.get(), words.data(), words.size(), 0) == 5);
  CHECK(client.peer() == end(address_case.frontend, service_port));
}

TEST_CASE("messages that one sendmmsg call sends to several services go to each one's backend") {
  SocketStage stage;
  const SharedBackend shared(stage, address_cases.front(), 2);
  std::array<mmsghdr, 2> messages{};
  std::array<sockaddr_in, 2> where{};
  std::array<iovec, 2> words{};
  for (std::size_t at = 0; at < messages.size(); ++at) {
    const auto service = shared.service(static_cast<int>(at) + 1);
    where.at(at).sin_family = AF_INET;
    where.at(at).sin_port = htons(service.port);
    std::memcpy(&where.at(at).sin_addr, service.address.bytes.data() + 12, 4);
    words.at(at) = {&where.at(at), 1};
    messages.at(at).msg_hdr.msg_name = &where.at(at);
    messages.at(at).msg_hdr.msg_namelen = sizeof(sockaddr_in);
    messages.at(at).msg_hdr.msg_iov = &words.at(at);
    messages.at(at).msg_hdr.msg_iovlen = 1;
  }
  const auto counted = counter_deltas(*stage.writer, [&] {
    CHECK(::sendmmsg(shared.client.fd(), messages.data(), messages.size(), 0) == 2);
  });
  CHECK(counted.socket_translated == 2);
  CHECK(echo_once(shared.server));
  CHECK(echo_once(shared.server));
  CHECK(shared.heard() == text(shared.service(2)));
}

}  // namespace lb::test
