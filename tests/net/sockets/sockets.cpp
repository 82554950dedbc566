// SPDX-License-Identifier: Apache-2.0
// Conversations through the socket programs: both families, both protocols, and the peer address that a
// socket reports.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/net/lib/socket_stage.hpp"

namespace lb::test {

TEST_CASE("SEM-56 a TCP connection to a service arrives at a backend and its peer is the service") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SocketStage stage;
  stage.serve(address_case, LB_TCP);
  const auto server = tcp_server(address_case.first_backend);
  const Socket client(address_case.socket_family, SOCK_STREAM);
  const auto counted = counter_deltas(*stage.writer, [&] {
    CHECK(client.connect(end(address_case.frontend, service_port)) == 0);
    CHECK(server.accept());
    CHECK(client.peer() == end(address_case.frontend, service_port));
  });
  CHECK(counted.socket_translated == 1);
  CHECK(counted.socket_restored == 1);
}

TEST_CASE("a connected UDP socket talks to a backend and hears the service") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SocketStage stage;
  stage.serve(address_case, LB_UDP);
  const auto server = udp_server(address_case.first_backend);
  const Socket client(address_case.socket_family, SOCK_DGRAM);
  REQUIRE(client.connect(end(address_case.frontend, service_port)) == 0);
  REQUIRE(client.send("hello") == 0);
  REQUIRE(echo_once(server));
  const auto answer = client.receive();
  REQUIRE(answer);
  CHECK(text(answer->from) == text(end(address_case.frontend, service_port)));
  CHECK(client.peer() == end(address_case.frontend, service_port));
}

TEST_CASE("an unconnected UDP socket talks to a backend and hears the service") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SocketStage stage;
  stage.serve(address_case, LB_UDP);
  const auto server = udp_server(address_case.first_backend);
  const Socket client(address_case.socket_family, SOCK_DGRAM);
  REQUIRE(client.send_to(end(address_case.frontend, service_port), "hello") == 0);
  REQUIRE(echo_once(server));
  const auto answer = client.receive();
  REQUIRE(answer);
  CHECK(text(answer->from) == text(end(address_case.frontend, service_port)));
}

TEST_CASE("an unconnected UDP socket stays on its backend until that serves no more") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SocketStage stage;
  stage.serve(address_case, LB_UDP);
  const auto first = udp_server(address_case.first_backend);
  const auto second = udp_server(address_case.second_backend);
  const Socket client(address_case.socket_family, SOCK_DGRAM);
  const auto ask = [&] { REQUIRE(client.send_to(end(address_case.frontend, service_port), "hello") == 0); };
  ask();
  REQUIRE(first.receive());

  // The set now has the other backend only; the first one drains, but still serves.
  stage.writer->service(web, {{2, end(address_case.second_backend, backend_port)}});
  const auto kept = counter_deltas(*stage.writer, ask);
  CHECK(first.receive());
  CHECK(kept.socket_kept == 1);

  stage.writer->backend(web, {1, end(address_case.first_backend, backend_port), LB_NO});
  const auto moved = counter_deltas(*stage.writer, ask);
  CHECK(second.receive());
  CHECK(moved.socket_translated == 1);
}

TEST_CASE("REL-81 a backend id that another endpoint has by now does not hold a UDP socket") {
  SocketStage stage;
  const auto& address_case = address_cases.front();
  stage.serve(address_case, LB_UDP);
  const auto first = udp_server(address_case.first_backend);
  const auto second = udp_server(address_case.second_backend);
  const Socket client(address_case.socket_family, SOCK_DGRAM);
  REQUIRE(client.send_to(end(address_case.frontend, service_port), "one") == 0);
  REQUIRE(first.receive());
  stage.writer->service(web, {{1, end(address_case.second_backend, backend_port)}});
  const auto counted = counter_deltas(
      *stage.writer, [&] { REQUIRE(client.send_to(end(address_case.frontend, service_port), "two") == 0); });
  CHECK(counted.socket_kept == 0);
  CHECK(second.receive());
}

TEST_CASE("one UDP socket hears each of several services under its own address") {
  SocketStage stage;
  const std::vector<std::pair<const char*, const char*>> services = {{"10.96.0.1", "10.1.0.1"},
                                                                     {"10.96.0.2", "10.1.0.2"}};
  std::uint32_t number = 1;
  for (const auto& [frontend, backend] : services) {
    stage.writer->service(number, {{number, end(backend, backend_port)}});
    stage.writer->frontend(end(frontend, service_port), LB_UDP, number++);
  }
  const auto first = udp_server("10.1.0.1");
  const auto second = udp_server("10.1.0.2");
  const Socket client(AF_INET, SOCK_DGRAM);
  for (const auto& [frontend, backend] : services) {
    REQUIRE(client.send_to(end(frontend, service_port), backend) == 0);
  }
  REQUIRE(echo_once(second));
  REQUIRE(echo_once(first));
  std::set<std::pair<std::string, std::string>> heard;
  for (int answers = 0; answers < 2; ++answers) {
    const auto answer = client.receive();
    REQUIRE(answer);
    heard.emplace(answer->from.address.text(), answer->words);
  }
  CHECK(heard == std::set<std::pair<std::string, std::string>>(services.begin(), services.end()));
}

TEST_CASE("a reconnected UDP socket's peer is the backend itself when it asked for that") {
  SocketStage stage;
  const auto& address_case = address_cases.front();
  stage.serve(address_case, LB_UDP);
  const Socket client(address_case.socket_family, SOCK_DGRAM);
  REQUIRE(client.connect(end(address_case.frontend, service_port)) == 0);
  REQUIRE(client.connect(end(address_case.first_backend, backend_port)) == 0);
  CHECK(client.peer() == end(address_case.first_backend, backend_port));
}

}  // namespace lb::test
