// SPDX-License-Identifier: Apache-2.0
// Connected UDP sockets whose backend is gone are connected again, and go on at another one (SEM-46, SEM-151
// to SEM-153).
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/lib/paths.hpp"
#include "tests/net/lib/talk.hpp"
#include "tests/net/lib/udp_round.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t backend_port = 8080;

/// The families of addresses and of the client's socket.
struct Families {
  int addresses;
  int socket;
};
constexpr std::array all_families{Families{AF_INET, AF_INET}, Families{AF_INET6, AF_INET6},
                                  Families{AF_INET, AF_INET6}};

/// A service of up to three backends: 1 is a pod here, 2 and 3 are on another node.
class ReconnectScene : public PodScene {
 public:
  explicit ReconnectScene(Families families) : PodScene(Wiring::routed), families_(families) {
    options.sockets = agent::SocketScope::all;
    REQUIRE(attach().failure().empty());
    writer.emplace(lab.pins());
    const auto& known = names(families.addresses);
    where = end(known.service, port);
    writer->address(known.service, LB_CLUSTER_ADDRESS);
    writer->address(known.node, LB_NODE_ADDRESS);
    backends_ = {{1, end(known.server, backend_port)},
                 {2, end(known.remote_pod, backend_port)},
                 {3, end(known.remote_pod, backend_port + 1)}};
    servers_.push_back(serve_at(server, SOCK_DGRAM, backends_[0].where));
    servers_.push_back(serve_at(remote, SOCK_DGRAM, backends_[1].where));
    servers_.push_back(serve_at(remote, SOCK_DGRAM, backends_[2].where));
    occupant_.emplace(occupy(client));
  }

  /// The backend of that number, from 1 on.
  [[nodiscard]] const BackendSpec& backend(std::uint32_t number) const { return backends_.at(number - 1); }
  [[nodiscard]] const Socket& server_of(std::uint32_t number) const { return servers_.at(number - 1); }
  /// The server of a backend on the other node is gone until it is started again.
  void close_server(std::uint32_t number) { servers_.at(number - 1) = Socket(AF_INET, SOCK_DGRAM); }
  void start_server(std::uint32_t number) {
    servers_.at(number - 1) = serve_at(remote, SOCK_DGRAM, backend(number).where);
  }

  /// The service has these backends, and all others of its are gone.
  void serve(const std::vector<std::uint32_t>& numbers) {
    std::vector<BackendSpec> set;
    for (const auto number : numbers) {
      set.push_back(backend(number));
    }
    writer->service(1, set);
    for (auto spec : backends_) {
      spec.serving = std::ranges::find(numbers, spec.id) != numbers.end() ? LB_YES : LB_NO;
      writer->backend(1, spec);
    }
    writer->frontend(where, LB_UDP, 1);
  }

  /// The same, and the agent's round. Returns how many sockets it connected; fails if it ended or left any.
  std::uint64_t reconnects_to(const std::vector<std::uint32_t>& numbers) {
    serve(numbers);
    return reconnects();
  }
  [[nodiscard]] std::uint64_t reconnects() const {
    const auto round = udp_round(*this);
    CHECK(round.ended == 0);
    CHECK(round.left == 0);
    CHECK(round.problem == std::string());
    return round.reconnected;
  }

  [[nodiscard]] Socket connected(const Host& host) const {
    auto socket = host.socket(families_.socket, SOCK_DGRAM);
    REQUIRE(socket.connect(where) == 0);
    return socket;
  }

  /// Whether the socket's message arrives at that backend, and its reply comes from the service.
  [[nodiscard]] bool reaches(const Socket& socket, std::uint32_t number) const {
    if (socket.send("words") != 0 || !echo_once(server_of(number))) {
      return false;
    }
    const auto answer = socket.receive();
    return answer && answer->words == "words" && answer->from == where && socket.peer() == where;
  }

  End where;
  std::optional<Writer> writer;

 private:
  Families families_;
  std::vector<BackendSpec> backends_;
  std::vector<Socket> servers_;
  std::optional<Running> occupant_;  ///< a process by which the pod's namespace is found
};

/// Whether the socket's calls report that error within some messages: an ICMP error is reported by the next
/// one.
bool fails_with(const Socket& socket, int error) {
  for (int count = 0; count < 10; ++count) {
    if (socket.send("words") == error) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

/// Runs the test for a socket of a pod, then for one of the node.
template <class Test>
void for_each_client(Test test) {
  for (const auto families : all_families) {
    DYNAMIC_SECTION((families.addresses == AF_INET ? "IPv4" : "IPv6")
                    << (families.addresses == families.socket ? "" : " by an IPv6 socket")) {
      ReconnectScene scene(families);
      const auto here = Host::here();
      for (const auto* client : {&std::as_const(scene.client), &here}) {
        INFO((client == &here ? "node" : "pod"));
        test(scene, *client);
      }
    }
  }
}

}  // namespace

TEST_CASE("SEM-46 a connected UDP socket goes on at one backend after the other") {
  for_each_client([](ReconnectScene& scene, const Host& client) {
    scene.serve({1});
    const auto socket = scene.connected(client);
    const auto name = socket.name();
    CHECK(scene.reaches(socket, 1));
    CHECK(scene.reconnects() == 0);
    for (const std::uint32_t next : {2U, 3U, 1U, 3U, 2U}) {
      INFO(next << " serves");
      CHECK(scene.reconnects_to({next}) == 1);
      for (int message = 0; message < 3; ++message) {
        CHECK(scene.reaches(socket, next));
      }
      CHECK(pending_error(socket) == 0);
      CHECK(socket.name() == name);
    }
  });
}

TEST_CASE("SEM-151 a connected UDP socket stays with its backend while that serves, or is only draining") {
  for_each_client([](ReconnectScene& scene, const Host& client) {
    scene.serve({2});
    const auto socket = scene.connected(client);
    CHECK(scene.reconnects_to({1, 2, 3}) == 0);
    CHECK(scene.reaches(socket, 2));
    scene.writer->service(1, {scene.backend(3)});
    CHECK(scene.reconnects() == 0);
    CHECK(scene.reaches(socket, 2));
  });
}

TEST_CASE(
    "SEM-152 without a backend a connected UDP socket gets ECONNREFUSED, and goes on with the next one") {
  for_each_client([](ReconnectScene& scene, const Host& client) {
    scene.serve({1});
    const auto socket = scene.connected(client);
    const auto late = [&] {
      scene.serve({});
      return scene.connected(client);
    }();
    CHECK(scene.reconnects() == 1);
    CHECK(fails_with(socket, ECONNREFUSED));
    CHECK(socket.peer() == scene.where);
    CHECK(scene.reconnects_to({2}) == 2);
    CHECK(scene.reaches(socket, 2));
    CHECK(scene.reaches(late, 2));
  });
}

TEST_CASE("SEM-152 a connected UDP socket follows its frontend to another Service, and to none") {
  for_each_client([](ReconnectScene& scene, const Host& client) {
    scene.serve({1});
    const auto socket = scene.connected(client);
    scene.writer->service(2, {{7, scene.backend(3).where}});
    scene.writer->frontend(scene.where, LB_UDP, 2);
    CHECK(scene.reconnects() == 1);
    CHECK(scene.reaches(socket, 3));
    scene.writer->remove_frontend(scene.where, LB_UDP);
    CHECK(scene.reconnects() == 1);
    CHECK(fails_with(socket, ECONNREFUSED));
    CHECK(scene.reconnects_to({2}) == 1);
    CHECK(scene.reaches(socket, 2));
  });
}

TEST_CASE("SEM-153 an error of the former backend does not reach the process") {
  for_each_client([](ReconnectScene& scene, const Host& client) {
    scene.serve({2});
    const auto socket = scene.connected(client);
    CHECK(scene.reaches(socket, 2));
    scene.close_server(2);
    REQUIRE(socket.send("nobody hears") == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK(scene.reconnects_to({3}) == 1);
    CHECK(pending_error(socket) == 0);
    CHECK(scene.reaches(socket, 3));
    scene.start_server(2);
  });
}

TEST_CASE("SEM-46 an answer of a former backend that is read late comes from the service") {
  for_each_client([](ReconnectScene& scene, const Host& client) {
    scene.serve({1});
    const auto socket = scene.connected(client);
    for (const std::uint32_t number : {1U, 2U, 3U}) {
      REQUIRE(socket.send("words") == 0);
      REQUIRE(echo_once(scene.server_of(number)));
      REQUIRE(is_readable(socket.fd(), std::chrono::seconds(1)));
      CHECK(scene.reconnects_to({number % 3 + 1}) == 1);
      const auto late = socket.receive();
      REQUIRE(late);
      CHECK(late->from == scene.where);
    }
  });
}

TEST_CASE("SEM-46 sockets of other processes go on, also one that a process inherited") {
  for (const auto families : {all_families[0], all_families[1]}) {
    DYNAMIC_SECTION((families.addresses == AF_INET ? "IPv4" : "IPv6")) {
      ReconnectScene scene(families);
      scene.serve({1});
      const auto script = source_path("tests/net/lib/connected_udp.py") + " --inherited " +
                          names(families.addresses).service + " " + std::to_string(port);
      const auto here = Host::here();
      const std::array clients{scene.client.start("exec /usr/bin/python3 " + script),
                               here.start("exec /usr/bin/python3 " + script)};
      const auto heard = [&](std::uint32_t number) {
        std::vector<End> sources;
        for (int tries = 0; sources.size() < clients.size() && tries < 1000; ++tries) {
          const auto source = echo_once(scene.server_of(number));
          if (source && std::ranges::find(sources, *source) == sources.end()) {
            sources.push_back(*source);
          }
        }
        std::ranges::sort(sources, {}, &End::port);
        return sources;
      };
      const auto before = heard(1);
      REQUIRE(before.size() == clients.size());
      CHECK(scene.reconnects_to({3}) == clients.size());
      CHECK(heard(3) == before);
    }
  }
}

TEST_CASE("SEM-46 a socket whose address is no service's any more is ended") {
  ReconnectScene scene(all_families[0]);
  scene.serve({1});
  const auto outside = end(names(AF_INET).vip, port);
  scene.writer->frontend(outside, LB_UDP, 1, LB_LOAD_BALANCER);
  const auto socket = scene.client.socket(AF_INET, SOCK_DGRAM);
  REQUIRE(socket.connect(outside) == 0);
  scene.writer->remove_frontend(outside, LB_UDP);
  const auto round = udp_round(scene);
  CHECK(round.reconnected == 0);
  CHECK(round.ended == 1);
  CHECK(pending_error(socket) == ECONNABORTED);
}

TEST_CASE("REL-161 a socket whose connect is left to packets is connected again once") {
  ReconnectScene scene(all_families[1]);
  scene.serve({});
  const auto socket = scene.client.socket(AF_INET6, SOCK_DGRAM);
  const auto unknown = end(names(AF_INET6).service, port + 1);
  REQUIRE(socket.bind(end("::1", 0)) == 0);
  REQUIRE(socket.connect(unknown) == 0);
  scene.serve({2});
  scene.writer->frontend(unknown, LB_UDP, 1);
  const auto round = udp_round(scene);
  CHECK(round.reconnected == 1);
  CHECK(round.passes == 2);
  CHECK(scene.reconnects() == 0);
}

TEST_CASE("SEM-46 a socket that cannot be connected again is ended") {
  ReconnectScene scene(all_families[0]);
  scene.serve({1});
  const auto socket = scene.connected(scene.client);
  scene.serve({2});
  scene.client.run("ip route del default");
  const auto round = udp_round(scene);
  CHECK(round.reconnected == 0);
  CHECK(round.ended == 1);
  CHECK(pending_error(socket) == ECONNABORTED);
}

TEST_CASE("REL-71 sockets that are unconnected, or connected directly, are not connected to a service") {
  ReconnectScene scene(all_families[0]);
  scene.serve({1});
  const auto lost = scene.connected(scene.client);
  const auto direct = scene.client.socket(AF_INET, SOCK_DGRAM);
  const auto unconnected = scene.client.socket(AF_INET, SOCK_DGRAM);
  REQUIRE(direct.connect(scene.backend(1).where) == 0);
  REQUIRE(unconnected.send_to(scene.where, "by the service") == 0);
  CHECK(echo_once(scene.server_of(1)));
  CHECK(unconnected.receive());
  CHECK(scene.reconnects_to({2}) == 1);
  CHECK(scene.reaches(lost, 2));
  REQUIRE(direct.send("still there?") == 0);
  CHECK(echo_once(scene.server_of(1)));
  CHECK(direct.receive());
  CHECK(direct.peer() == scene.backend(1).where);
  CHECK_FALSE(unconnected.peer());
}

}  // namespace lb::test
