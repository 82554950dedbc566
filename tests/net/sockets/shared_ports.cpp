// SPDX-License-Identifier: Apache-2.0
// Sockets that share a port: the kernel gives one of them what another asked for.
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/net/lib/socket_stage.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t shared_port = 7000;

/// A UDP service with one backend, and sockets of one port of its client.
struct SharedPort {
  explicit SharedPort(const AddressCase& addresses)
      : address_case(addresses), server(udp_server(address_case.first_backend)) {
    stage.serve(address_case, LB_UDP);
  }

  [[nodiscard]] End service() const { return end(address_case.frontend, service_port); }
  [[nodiscard]] End backend() const { return end(address_case.first_backend, backend_port); }

  void open(int count) {
    const int yes = 1;
    for (int made = 0; made < count; ++made) {
      auto& socket = *group.emplace_back(std::make_unique<Socket>(address_case.socket_family, SOCK_DGRAM));
      REQUIRE(::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEPORT, &yes, sizeof(yes)) == 0);
      REQUIRE(socket.bind(end(address_case.second_backend, shared_port)) == 0);
    }
  }

  /// The sender of the datagram that one of the sockets has got; "" if none has.
  [[nodiscard]] std::string heard() const {
    for (int round = 0; round < 20; ++round) {
      for (const auto& socket : group) {
        if (!is_readable(socket->fd(), std::chrono::milliseconds(20))) {
          continue;
        }
        const auto message = socket->receive();
        return message ? text(message->from) : std::string();
      }
    }
    return {};
  }

  SocketStage stage;
  AddressCase address_case;
  Socket server;
  std::vector<std::unique_ptr<Socket>> group;
};

}  // namespace

TEST_CASE("SEM-132 of sockets that share a port each sees the service's address, whichever asked") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SharedPort shared(address_case);
  shared.open(4);
  for (const auto& sender : shared.group) {
    REQUIRE(sender->send_to(shared.service(), "ask") == 0);
    REQUIRE(echo_once(shared.server));
    CHECK(shared.heard() == text(shared.service()));
    REQUIRE(sender->send_to(shared.service(), "kept") == 0);
    REQUIRE(echo_once(shared.server));
    CHECK(shared.heard() == text(shared.service()));
  }
}

TEST_CASE(
    "SEM-132 the answer to a socket that was closed has the service's address at the others of its port") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SharedPort shared(address_case);
  shared.open(2);
  REQUIRE(shared.group.front()->send_to(shared.service(), "ask") == 0);
  shared.group.erase(shared.group.begin());
  REQUIRE(echo_once(shared.server));
  CHECK(shared.heard() == text(shared.service()));
}

TEST_CASE(
    "SEM-132 of sockets that share a port, what is sent directly to a backend is answered by the backend") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SharedPort shared(address_case);
  shared.open(2);
  REQUIRE(shared.group.front()->send_to(shared.service(), "ask") == 0);
  REQUIRE(echo_once(shared.server));
  REQUIRE(shared.heard() == text(shared.service()));
  for (const auto& sender : shared.group) {
    REQUIRE(sender->send_to(shared.backend(), "directly") == 0);
    REQUIRE(echo_once(shared.server));
    CHECK(shared.heard() == text(shared.backend()));
  }
}

TEST_CASE("SEM-132 a socket on another port is not told what the sockets of a port asked") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SharedPort shared(address_case);
  shared.open(2);
  REQUIRE(shared.group.front()->send_to(shared.service(), "ask") == 0);
  REQUIRE(echo_once(shared.server));
  const Socket other(address_case.socket_family, SOCK_DGRAM);
  REQUIRE(other.bind(end(address_case.second_backend, shared_port + 1)) == 0);
  REQUIRE(shared.server.send_to(end(address_case.second_backend, shared_port + 1), "news") == 0);
  const auto message = other.receive();
  REQUIRE(message);
  CHECK(message->from == shared.backend());
}

}  // namespace lb::test
