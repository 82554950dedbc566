// SPDX-License-Identifier: Apache-2.0
// The datapath with the test's own sockets: the environment of the tests of the socket programs.
#pragma once

#include <fmt/format.h>
#include <netinet/in.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "agent/datapath/datapath.hpp"
#include "tests/net/lib/lab.hpp"
#include "tests/net/lib/scene.hpp"

namespace lb::test {

/// A combination of socket, frontend and backend addresses.
struct AddressCase {
  const char* name;
  int socket_family;
  const char* frontend;
  const char* first_backend;
  const char* second_backend;
};

inline const std::vector<AddressCase> address_cases = {
    {"IPv4", AF_INET, "10.96.0.1", "10.1.0.1", "10.1.0.2"},
    {"IPv6", AF_INET6, "fd00:96::1", "fd00:1::1", "fd00:1::2"},
    {"IPv4 by an IPv6 socket", AF_INET6, "10.96.0.1", "10.1.0.1", "10.1.0.2"},
};

inline constexpr std::uint16_t service_port = 80;
inline constexpr std::uint16_t backend_port = 8080;
inline constexpr std::uint32_t web = 7;

/// The datapath attached to a lab's cgroup, with backend addresses on the loopback device.
struct SocketStage {
  explicit SocketStage(agent::SocketScope scope = agent::SocketScope::all) : options(lab.options()) {
    options.sockets = scope;
    datapath.emplace(agent::Datapath::open(options));
    const auto failure = datapath->attach().failure();
    INFO(failure);
    REQUIRE(failure.empty());
    writer.emplace(lab.pins());
    for (const auto* address : {"10.1.0.1/32", "10.1.0.2/32", "fd00:1::1/128 nodad", "fd00:1::2/128 nodad"}) {
      shell(fmt::format("ip address add {} dev lo", address));
    }
    for (const auto* address : {"fd00:1::1", "fd00:1::2"}) {
      shell(await_local_route(address));
    }
  }

  void serve(const AddressCase& address_case, lb_protocol protocol, lb_policy policy = {}) {
    writer->service(web, {{1, end(address_case.first_backend, backend_port)}}, policy);
    writer->frontend(end(address_case.frontend, service_port), protocol, web);
  }

  /// Adds a route to services, as a default route would be; its packets end on the loopback device.
  static void route_services() {
    shell("ip route add 10.96.0.0/16 dev lo src 10.1.0.1 && ip route add fd00:96::/64 dev lo src fd00:1::1");
  }

  Lab lab;
  agent::AgentOptions options;
  std::optional<agent::Datapath> datapath;
  std::optional<Writer> writer;
};

inline int family_of(const char* address) {
  return end(address, 0).address.family() == k8s::Family::ipv4 ? AF_INET : AF_INET6;
}

inline Socket tcp_server(const char* address) {
  Socket server(family_of(address), SOCK_STREAM);
  REQUIRE(server.bind(end(address, backend_port)) == 0);
  REQUIRE(server.listen() == 0);
  return server;
}

inline Socket udp_server(const char* address) {
  Socket server(family_of(address), SOCK_DGRAM);
  REQUIRE(server.bind(end(address, backend_port)) == 0);
  return server;
}

}  // namespace lb::test
