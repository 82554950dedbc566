// SPDX-License-Identifier: Apache-2.0
// Which set serves the node's own processes: the cases "node to ..." and "localhost to ..." of upstream's
// TestInternalExternalMasquerade, with their names; tests/prog/fixtures/tables_clients.py has the other
// clients' cases. Sockets keep every source address, so upstream's masquerade column is not tested here.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <string>
#include <vector>

#include "tests/net/lib/socket_stage.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t nodes_port = 30080;

enum class To : std::uint8_t { cluster_ip, node_port, localhost, load_balancer, external_ip };

struct Truth {
  const char* name;
  To to;
  lb_scope internal;
  lb_scope external;
  lb_scope chosen;
};

/// The cases of external addresses are our own: upstream has none.
const std::vector<Truth> truths = {
    {"node to ClusterIP", To::cluster_ip, LB_CLUSTER, LB_CLUSTER, LB_CLUSTER},
    {"node to NodePort", To::node_port, LB_CLUSTER, LB_CLUSTER, LB_CLUSTER},
    {"localhost to NodePort", To::localhost, LB_CLUSTER, LB_CLUSTER, LB_CLUSTER},
    {"node to LB", To::load_balancer, LB_CLUSTER, LB_CLUSTER, LB_CLUSTER},
    {"node to external IP", To::external_ip, LB_CLUSTER, LB_CLUSTER, LB_CLUSTER},
    {"node to ClusterIP with eTP:Local", To::cluster_ip, LB_CLUSTER, LB_LOCAL, LB_CLUSTER},
    {"node to NodePort with eTP:Local", To::node_port, LB_CLUSTER, LB_LOCAL, LB_CLUSTER},
    {"localhost to NodePort with eTP:Local", To::localhost, LB_CLUSTER, LB_LOCAL, LB_CLUSTER},
    {"node to LB with eTP:Local", To::load_balancer, LB_CLUSTER, LB_LOCAL, LB_CLUSTER},
    {"node to external IP with eTP:Local", To::external_ip, LB_CLUSTER, LB_LOCAL, LB_CLUSTER},
    {"node to ClusterIP with iTP:Local", To::cluster_ip, LB_LOCAL, LB_CLUSTER, LB_LOCAL},
    {"node to NodePort with iTP:Local", To::node_port, LB_LOCAL, LB_CLUSTER, LB_CLUSTER},
    {"localhost to NodePort with iTP:Local", To::localhost, LB_LOCAL, LB_CLUSTER, LB_CLUSTER},
    {"node to LB with iTP:Local", To::load_balancer, LB_LOCAL, LB_CLUSTER, LB_CLUSTER},
    {"node to external IP with iTP:Local", To::external_ip, LB_LOCAL, LB_CLUSTER, LB_CLUSTER},
};

/// A service at all its addresses; its cluster set is the first backend, its local set the second.
class Everywhere {
 public:
  Everywhere(SocketStage& stage, const AddressCase& address_case, lb_protocol protocol)
      : writer_(*stage.writer), case_(address_case), ipv4_(family_of(address_case.frontend) == AF_INET) {
    set({});
    writer_.frontend(where(To::cluster_ip), protocol, web, LB_CLUSTER_IP);
    writer_.frontend(where(To::load_balancer), protocol, web, LB_LOAD_BALANCER);
    writer_.frontend(where(To::external_ip), protocol, web, LB_EXTERNAL_IP);
    writer_.node_port(where(To::node_port).address, nodes_port, protocol, web);
    writer_.address(address_case.second_backend, LB_NODE_PORT_ADDRESS);
    writer_.address(ipv4_ ? "127.0.0.1" : "::1", LB_LOOPBACK_ADDRESS);
  }

  void set(lb_policy policy) {
    writer_.service(web, {{1, end(case_.first_backend, backend_port)}}, policy,
                    {{2, end(case_.second_backend, backend_port)}});
  }

  [[nodiscard]] End where(To to) const {
    switch (to) {
      case To::node_port:
        return end(case_.second_backend, nodes_port);
      case To::localhost:
        return end(ipv4_ ? "127.0.0.1" : "::1", nodes_port);
      case To::load_balancer:
        return end(ipv4_ ? "203.0.113.1" : "2001:db8:113::1", service_port);
      case To::external_ip:
        return end(ipv4_ ? "203.0.113.2" : "2001:db8:113::2", service_port);
      default:
        return end(case_.frontend, service_port);
    }
  }

 private:
  Writer& writer_;
  const AddressCase& case_;
  bool ipv4_;
};

/// Checks that a process that connects to `where` reaches this server, and sees `where` as its peer.
void reaches(const AddressCase& address_case, lb_protocol protocol, const End& where, const Socket& server) {
  const Socket client(address_case.socket_family, protocol == LB_TCP ? SOCK_STREAM : SOCK_DGRAM);
  REQUIRE(client.connect(where) == 0);
  CHECK(client.peer() == where);
  if (protocol == LB_TCP) {
    CHECK(server.accept());
    return;
  }
  CHECK(client.send("who?") == 0);
  CHECK(echo_once(server));
  const auto answer = client.receive();
  REQUIRE(answer);
  CHECK(answer->words == "who?");
}

}  // namespace

TEST_CASE("SEM-32 upstream's truth table, for the node's own processes") {
  const auto& address_case = GENERATE(from_range(address_cases));
  SocketStage stage;
  for (const auto protocol : {LB_TCP, LB_UDP}) {
    Everywhere service(stage, address_case, protocol);
    const auto first =
        protocol == LB_TCP ? tcp_server(address_case.first_backend) : udp_server(address_case.first_backend);
    const auto second = protocol == LB_TCP ? tcp_server(address_case.second_backend)
                                           : udp_server(address_case.second_backend);
    for (const auto& truth : truths) {
      INFO(truth.name << ", " << address_case.name << (protocol == LB_TCP ? ", TCP" : ", UDP"));
      lb_policy policy{};
      policy.internal = truth.internal;
      policy.external = truth.external;
      service.set(policy);
      reaches(address_case, protocol, service.where(truth.to), truth.chosen == LB_LOCAL ? second : first);
    }
  }
}

}  // namespace lb::test
