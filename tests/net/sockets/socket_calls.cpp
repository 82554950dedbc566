// SPDX-License-Identifier: Apache-2.0
// Which calls the socket programs translate, refuse or ignore: every outcome of a call.
#include <fcntl.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/net/lib/socket_stage.hpp"

namespace lb::test {

namespace {

/// A connected UDP socket's own address, without the port, as programs look it up; "" if connect() failed.
std::string own_address_towards(const Socket& socket, const End& where) {
  return socket.connect(where) == 0 && socket.name() ? socket.name()->address.text() : std::string();
}

}  // namespace

TEST_CASE("a service without endpoints refuses at once, but for UDP's connect, which sends nothing") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SocketStage stage;
  stage.route_services();
  stage.writer->service(web, {});
  for (const auto protocol : {LB_TCP, LB_UDP}) {
    stage.writer->frontend(end(address_case.frontend, service_port), protocol, web);
  }
  CHECK(Socket(address_case.socket_family, SOCK_STREAM).connect(end(address_case.frontend, service_port)) ==
        ECONNREFUSED);
  CHECK(
      Socket(address_case.socket_family, SOCK_DGRAM).send_to(end(address_case.frontend, service_port), "x") ==
      ECONNREFUSED);
  const Socket client(address_case.socket_family, SOCK_DGRAM);
  const auto counted = counter_deltas(*stage.writer, [&] {
    CHECK(own_address_towards(client, end(address_case.frontend, service_port)) ==
          address_case.first_backend);
    CHECK(client.peer() == end(address_case.frontend, service_port));
  });
  CHECK(counted.socket_left == 1);
  CHECK(client.send_to(end(address_case.frontend, service_port), "x") == ECONNREFUSED);
}

TEST_CASE(
    "an unknown port or protocol of a ClusterIP is refused at once, of other addresses left alone (SEM-31)") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SocketStage stage;
  stage.serve(address_case, LB_TCP);
  const std::uint16_t unknown = service_port + 1;
  const auto asked = [&] {
    CHECK(Socket(address_case.socket_family, SOCK_STREAM).connect(end(address_case.frontend, unknown)) != 0);
    static_cast<void>(
        Socket(address_case.socket_family, SOCK_DGRAM).connect(end(address_case.frontend, service_port)));
  };
  CHECK(counter_deltas(*stage.writer, asked).socket_unrelated == 2);
  stage.route_services();
  stage.writer->address(address_case.frontend, LB_CLUSTER_ADDRESS);
  const auto counted = counter_deltas(*stage.writer, [&] {
    CHECK(Socket(address_case.socket_family, SOCK_STREAM).connect(end(address_case.frontend, unknown)) ==
          ECONNREFUSED);
    CHECK(Socket(address_case.socket_family, SOCK_DGRAM).send_to(end(address_case.frontend, unknown), "x") ==
          ECONNREFUSED);
  });
  CHECK(counted.socket_refused == 2);
  const auto connected = counter_deltas(*stage.writer, [&] {
    const Socket client(address_case.socket_family, SOCK_DGRAM);
    CHECK(own_address_towards(client, end(address_case.frontend, service_port)) ==
          address_case.first_backend);
    CHECK(client.peer() == end(address_case.frontend, service_port));
  });
  CHECK(connected.socket_left == 1);
  const auto server = tcp_server(address_case.first_backend);
  CHECK(Socket(address_case.socket_family, SOCK_STREAM).connect(end(address_case.frontend, service_port)) ==
        0);
}

TEST_CASE("localhost serves node ports to the node's own processes in both families") {
  struct Local {
    const char* address;
    const char* backend;
  };
  const auto& local = GENERATE(values<Local>({{"127.0.0.1", "10.1.0.1"}, {"::1", "fd00:1::1"}}));
  INFO(local.address);
  SocketStage stage;
  stage.writer->service(web, {{1, end(local.backend, backend_port)}});
  stage.writer->node_port(end(local.address, 0).address, 30080, LB_TCP, web);
  stage.writer->address(local.address, LB_LOOPBACK_ADDRESS);
  const auto server = tcp_server(local.backend);
  const Socket client(family_of(local.address), SOCK_STREAM);
  CHECK(client.connect(end(local.address, 30080)) == 0);
  CHECK(server.accept());
  CHECK(client.peer() == end(local.address, 30080));
}

TEST_CASE("a pod's localhost is its own") {
  SocketStage stage;
  stage.writer->service(web, {{1, end("10.1.0.1", backend_port)}});
  stage.writer->node_port(end("127.0.0.1", 0).address, 30080, LB_TCP, web);
  stage.writer->address("127.0.0.1", LB_LOOPBACK_ADDRESS);
  const auto pod = Namespace::fresh();
  int outcome = 0;
  const auto counted = counter_deltas(*stage.writer, [&] {
    std::jthread([&] {
      pod.enter();
      outcome = Socket(AF_INET, SOCK_STREAM).connect(end("127.0.0.1", 30080));
    });
  });
  CHECK(outcome == ECONNREFUSED);
  CHECK(counted.socket_unrelated == 1);
}

TEST_CASE("SEM-84 a node port has one service per family, and only the addresses for node ports serve it") {
  SocketStage stage;
  stage.writer->service(1, {{1, end("10.1.0.1", backend_port)}});
  stage.writer->service(2, {{2, end("fd00:1::1", backend_port)}});
  stage.writer->node_port(end("10.1.0.2", 0).address, 30080, LB_TCP, 1);
  stage.writer->node_port(end("fd00:1::2", 0).address, 30080, LB_TCP, 2);
  stage.writer->address("10.1.0.2", LB_NODE_PORT_ADDRESS);
  stage.writer->address("fd00:1::2", LB_NODE_PORT_ADDRESS);
  stage.writer->address("10.1.0.1", LB_NODE_ADDRESS);
  const auto first = tcp_server("10.1.0.1");
  const auto second = tcp_server("fd00:1::1");
  CHECK(Socket(AF_INET, SOCK_STREAM).connect(end("10.1.0.2", 30080)) == 0);
  CHECK(first.accept());
  CHECK(Socket(AF_INET6, SOCK_STREAM).connect(end("fd00:1::2", 30080)) == 0);
  CHECK(second.accept());
  CHECK(Socket(AF_INET, SOCK_STREAM).connect(end("10.1.0.1", 30080)) == ECONNREFUSED);
}

TEST_CASE("with sockets of the host only a pod's calls are left to the packet path") {
  SocketStage stage(agent::SocketScope::host);
  stage.serve(address_cases.front(), LB_TCP);
  const auto server = tcp_server("10.1.0.1");
  const auto here = counter_deltas(*stage.writer, [&] {
    CHECK(Socket(AF_INET, SOCK_STREAM).connect(end("10.96.0.1", service_port)) == 0);
  });
  CHECK(here.socket_translated == 1);
  const auto pod = Namespace::fresh();
  const auto there = counter_deltas(*stage.writer, [&] {
    std::jthread([&] {
      pod.enter();
      static_cast<void>(Socket(AF_INET, SOCK_STREAM).connect(end("10.96.0.1", service_port)));
    });
  });
  CHECK(there.socket_left == 1);
  CHECK(there.socket_translated == 0);
}

TEST_CASE("a ClusterIP with a local policy uses the local set, every other kind the cluster set") {
  SocketStage stage;
  lb_policy policy{};
  policy.internal = LB_LOCAL;
  policy.external = LB_LOCAL;
  policy.local_empty = LB_DROP;
  stage.writer->service(web, {{1, end("10.1.0.1", backend_port)}}, policy);
  stage.writer->frontend(end("10.96.0.1", service_port), LB_UDP, web, LB_CLUSTER_IP);
  stage.writer->frontend(end("203.0.113.1", service_port), LB_UDP, web, LB_LOAD_BALANCER);
  const auto counted = counter_deltas(*stage.writer, [&] {
    static_cast<void>(Socket(AF_INET, SOCK_DGRAM).connect(end("10.96.0.1", service_port)));
    CHECK(Socket(AF_INET, SOCK_DGRAM).connect(end("203.0.113.1", service_port)) == 0);
  });
  CHECK(counted.socket_dropped == 1);
  CHECK(counted.socket_translated == 1);
}

TEST_CASE("calls that only the packet path can decide are left alone") {
  SocketStage stage;
  const auto left_by = [&](const std::function<void()>& act) {
    return counter_deltas(*stage.writer, act).socket_left == 1;
  };
  const auto connect = [&] {
    static_cast<void>(Socket(AF_INET, SOCK_DGRAM).connect(end("10.96.0.1", service_port)));
  };
  const auto pod = Namespace::fresh();
  const auto connect_from_pod = [&] {
    std::jthread([&] {
      pod.enter();
      connect();
    });
  };

  SECTION("the service belongs to the packet path") {
    lb_policy policy{};
    policy.packet_path = LB_YES;
    stage.serve(address_cases.front(), LB_UDP, policy);
    CHECK(left_by(connect_from_pod));
  }
  SECTION("source ranges limit its load-balancer address") {
    lb_policy policy{};
    policy.source_ranges = LB_YES;
    stage.serve(address_cases.front(), LB_UDP, policy);
    stage.writer->frontend(end("10.96.0.1", service_port), LB_UDP, web, LB_LOAD_BALANCER);
    CHECK(left_by(connect_from_pod));
  }
  SECTION("the socket is bound to loopback") {
    const auto& address_case = GENERATE(from_range(address_cases));
    INFO(address_case.name);
    stage.serve(address_case, LB_UDP);
    const Socket client(address_case.socket_family, SOCK_DGRAM);
    REQUIRE(client.bind(end(family_of(address_case.frontend) == AF_INET ? "127.0.0.1" : "::1", 0)) == 0);
    CHECK(left_by([&] { static_cast<void>(client.send_to(end(address_case.frontend, service_port), "x")); }));
    CHECK(left_by([&] { static_cast<void>(client.connect(end(address_case.frontend, service_port))); }));
  }
  SECTION("its slot names another service's backend") {
    stage.serve(address_cases.front(), LB_UDP);
    stage.writer->backend(web + 1, {9, end("10.1.0.2", backend_port)});
    stage.writer->stale_slot(web, 9);
    CHECK(left_by(connect));
  }
}

TEST_CASE("SEM-37 source ranges hold for the host's sockets, by the address that they have or will have") {
  SocketStage stage;
  const auto& address_case = GENERATE(from_range(address_cases));
  const int type = GENERATE(SOCK_DGRAM, SOCK_STREAM);
  const auto affinity =
      GENERATE(LB_NO, LB_YES);  // with affinity, pods leave the whole service to the packet path
  INFO(address_case.name << ", type " << type << ", affinity " << affinity);
  lb_policy policy{};
  policy.source_ranges = LB_YES;
  policy.packet_path = affinity;
  const auto protocol = type == SOCK_DGRAM ? LB_UDP : LB_TCP;
  stage.serve(address_case, protocol, policy);
  stage.writer->frontend(end(address_case.frontend, service_port), protocol, web, LB_LOAD_BALANCER);
  const bool ipv4 = family_of(address_case.frontend) == AF_INET;
  const auto* inside = ipv4 ? "10.1.0.1" : "fd00:1::1";
  const auto* outside = ipv4 ? "10.1.0.2" : "fd00:1::2";
  stage.writer->range(web, ipv4 ? "10.1.0.1/32" : "fd00:1::1/128");
  const auto node_has = [&](const char* address) {
    stage.datapath->page().set_sources(end(ipv4 ? address : "192.0.2.1", 0).address,
                                       end(ipv4 ? "2001:db8::1" : address, 0).address);
  };
  const auto connect = [&](const char* bound) {
    const Socket client(address_case.socket_family, type);
    REQUIRE((bound == nullptr || client.bind(end(bound, 0)) == 0));
    if (type == SOCK_STREAM) {
      ::fcntl(client.fd(), F_SETFL, O_NONBLOCK);
    }
    return counter_deltas(
        *stage.writer, [&] { static_cast<void>(client.connect(end(address_case.frontend, service_port))); });
  };

  node_has(inside);
  CHECK(connect(nullptr).socket_translated == 1);
  CHECK(connect(inside).socket_translated == 1);
  CHECK(connect(outside).socket_dropped == 1);
  node_has(outside);
  CHECK(connect(nullptr).socket_dropped == 1);
  CHECK(connect(inside).socket_translated == 1);
  if (type == SOCK_DGRAM) {
    const auto send = [&](const Socket& client) {
      return counter_deltas(*stage.writer, [&] {
        static_cast<void>(client.send_to(end(address_case.frontend, service_port), "x"));
      });
    };
    CHECK(send(Socket(address_case.socket_family, type)).socket_dropped == 1);
    const Socket bound(address_case.socket_family, type);
    REQUIRE(bound.bind(end(inside, 0)) == 0);
    CHECK(send(bound).socket_translated == 1);
  }
}

TEST_CASE("a frontend whose value is not its key's is looked up once more and not believed") {
  SocketStage stage;
  stage.serve(address_cases.front(), LB_UDP);
  stage.writer->wrong_frontend(end("10.96.0.1", service_port), LB_UDP, web);
  const auto counted = counter_deltas(*stage.writer, [&] {
    static_cast<void>(Socket(AF_INET, SOCK_DGRAM).connect(end("10.96.0.1", service_port)));
  });
  CHECK(counted.check_failed == 2);
  CHECK(counted.socket_unrelated == 1);
}

TEST_CASE("without memory for the pair a socket is translated and forgotten") {
  SocketStage stage;
  stage.serve(address_cases.front(), LB_UDP);
  shell("echo 64 > /proc/sys/net/core/optmem_max");
  const auto server = udp_server("10.1.0.1");
  const Socket client(AF_INET, SOCK_DGRAM);
  const auto counted =
      counter_deltas(*stage.writer, [&] { CHECK(client.send_to(end("10.96.0.1", service_port), "x") == 0); });
  CHECK(counted.socket_forgotten == 1);
  REQUIRE(echo_once(server));
  const auto answer = client.receive();
  REQUIRE(answer);
  CHECK(text(answer->from) == "10.1.0.1:8080");
}

TEST_CASE("a call to no service is untouched and its peer is what it asked for") {
  SocketStage stage;
  const auto server = tcp_server("10.1.0.1");
  const Socket client(AF_INET, SOCK_STREAM);
  const auto counted = counter_deltas(*stage.writer, [&] {
    CHECK(client.connect(end("10.1.0.1", backend_port)) == 0);
    CHECK(client.peer() == end("10.1.0.1", backend_port));
  });
  CHECK(counted.socket_unrelated == 2);
}

TEST_CASE("every outcome of a socket call is reached") {
  SocketStage stage;
  const auto service = end("10.96.0.1", service_port);
  const auto counted = counter_deltas(*stage.writer, [&] {
    stage.serve(address_cases.front(), LB_UDP);
    const Socket client(AF_INET, SOCK_DGRAM);
    CHECK(client.send_to(service, "translated") == 0);
    CHECK(client.send_to(service, "kept") == 0);
    CHECK(client.connect(service) == 0);
    CHECK(client.peer() == service);
    static_cast<void>(client.connect(end("10.1.0.2", backend_port)));
    const auto claimed = end("10.1.0.2", 4000);
    const Socket sender(AF_INET, SOCK_DGRAM);
    CHECK(sender.send_to(claimed, "unrelated") == 0);
    stage.writer->frontend(claimed, LB_UDP, web, LB_EXTERNAL_IP);
    static_cast<void>(sender.send_to(claimed, "direct"));
    shell("echo 64 > /proc/sys/net/core/optmem_max");
    CHECK(Socket(AF_INET, SOCK_DGRAM).connect(service) == 0);
    stage.writer->service(web, {});
    CHECK(Socket(AF_INET, SOCK_DGRAM).send_to(service, "refused") == ECONNREFUSED);
    lb_policy policy{};
    policy.cluster_empty = LB_DROP;
    stage.writer->service(web, {}, policy);
    static_cast<void>(Socket(AF_INET, SOCK_DGRAM).connect(service));
    const Socket local(AF_INET, SOCK_DGRAM);
    REQUIRE(local.bind(end("127.0.0.1", 0)) == 0);
    static_cast<void>(local.connect(service));
  });
#define CHECK_OUTCOME(name, action, meaning) \
  if (std::string_view(#action) == "CALL") { \
    INFO(#name);                             \
    CHECK(counted.name > 0);                 \
  }
  LB_OUTCOMES(CHECK_OUTCOME)
#undef CHECK_OUTCOME
}

}  // namespace lb::test
