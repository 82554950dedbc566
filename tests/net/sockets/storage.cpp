// SPDX-License-Identifier: Apache-2.0
// REL-140: the memory of sockets' storage has a limit, and what happens there.
#include <bpf/bpf.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "maps/mapped.hpp"
#include "tests/net/lib/socket_stage.hpp"

namespace lb::test {
namespace {

/// The words by which agent and programs keep the limit.
struct Use {
  explicit Use(const SocketStage& stage)
      : array(maps::MappedArray<lb_socket_use>::open(
                  maps::Fd(bpf_obj_get(maps::Pins(stage.lab.pins()).map("lb_socket_use").c_str())),
                  maps::Access::write)
                  .value()) {}

  [[nodiscard]] lb_socket_use now() const { return array.load(0); }
  /// Leaves so many units to the programs.
  void leave(std::uint64_t units) {
    auto use = now();
    use.most = use.made + units;
    array.publish<offsetof(lb_socket_use, most)>(0, use);
  }

  maps::MappedArray<lb_socket_use> array;
};

}  // namespace

TEST_CASE("REL-140 at the limit sockets are translated and not remembered, of TCP before UDP") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SocketStage stage;
  stage.serve(address_case, LB_TCP);
  stage.serve(address_case, LB_UDP);
  stage.datapath->page().set_heartbeat();
  const auto service = end(address_case.frontend, service_port);
  const auto backend = end(address_case.first_backend, backend_port);
  const auto tcp = tcp_server(address_case.first_backend);
  const auto udp = udp_server(address_case.first_backend);
  Use use(stage);
  const auto peer_of_connection = [&] {
    const Socket client(address_case.socket_family, SOCK_STREAM);
    CHECK(client.connect(service) == 0);
    CHECK(tcp.accept());
    return client.peer();
  };
  const auto sender_of_answer = [&] {
    const Socket client(address_case.socket_family, SOCK_DGRAM);
    CHECK(client.send_to(service, "ask") == 0);
    CHECK(echo_once(udp));
    const auto answer = client.receive();
    return answer ? answer->from : End{};
  };

  use.leave(LB_SOCKET_RESERVE + 1);
  CHECK(peer_of_connection() == service);
  const auto refused = counter_deltas(*stage.writer, [&] { CHECK(peer_of_connection() == backend); });
  CHECK(refused.socket_forgotten == 1);
  CHECK(sender_of_answer() == service);
  use.leave(LB_UDP_SOCKET_UNITS - 1);
  CHECK(counter_deltas(*stage.writer, [&] { CHECK(sender_of_answer() == backend); }).socket_forgotten == 1);
  use.leave(LB_SOCKET_RESERVE + 1);
  CHECK(peer_of_connection() == service);
}

TEST_CASE("REL-140 without an agent sockets have no limit") {
  SocketStage stage;
  const auto& address_case = address_cases.front();
  stage.serve(address_case, LB_TCP);
  const auto server = tcp_server(address_case.first_backend);
  Use use(stage);
  use.leave(1);  // the node page of a stage has no heartbeat
  const Socket client(address_case.socket_family, SOCK_STREAM);
  CHECK(client.connect(end(address_case.frontend, service_port)) == 0);
  CHECK(client.peer() == end(address_case.frontend, service_port));
}

TEST_CASE(
    "REL-140 the agent counts the sockets that exist, of all network namespaces, and lets as many be made") {
  const auto& address_case = GENERATE(from_range(address_cases));
  INFO(address_case.name);
  SocketStage stage;
  if (!stage.datapath->features().usable(agent::Feature::storage_iterator)) {
    return;
  }
  stage.serve(address_case, LB_TCP);
  stage.serve(address_case, LB_UDP);
  const auto server = tcp_server(address_case.first_backend);
  Use use(stage);
  const auto left_after_counting = [&] {
    use.leave(1);
    stage.datapath->limit_socket_storage();
    return use.now().most - use.now().made;
  };
  const auto before = left_after_counting();
  std::vector<std::unique_ptr<Socket>> sockets;
  for (int count = 0; count < 10; ++count) {
    const int type = count < 6 ? SOCK_STREAM : SOCK_DGRAM;
    auto& socket = *sockets.emplace_back(std::make_unique<Socket>(address_case.socket_family, type));
    REQUIRE(socket.connect(end(address_case.frontend, service_port)) == 0);
  }
  CHECK(before - left_after_counting() ==
        std::uint64_t{6} * LB_TCP_SOCKET_UNITS + std::uint64_t{4} * LB_UDP_SOCKET_UNITS);
  sockets.erase(sockets.begin() + 6, sockets.end());
  // The kernel frees storage after a grace period.
  auto used = before - left_after_counting();
  for (int tries = 0; tries < 100 && used != std::uint64_t{6} * LB_TCP_SOCKET_UNITS; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    used = before - left_after_counting();
  }
  CHECK(used == std::uint64_t{6} * LB_TCP_SOCKET_UNITS);
}

}  // namespace lb::test
