// SPDX-License-Identifier: Apache-2.0
// What live flows and sockets do when their backend or their service is removed: TCP drains, UDP changes to
// another backend within a second, connected UDP sockets get an error if nobody connects them (SEM-45 to
// SEM-48, SEM-94, REL-8 to REL-10, REL-71, REL-161).
#include <bpf/bpf.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/net/lib/talk.hpp"
#include "tests/net/lib/udp_round.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t backend_port = 8080;

const char* family_text(int family) { return family == AF_INET ? "IPv4" : "IPv6"; }

/// Backend 1 is the local pod, backend 2 the remote one.
struct Offer {
  BackendSpec here, elsewhere;
  End where;
};

Offer offer(Writer& writer, int family, lb_protocol protocol) {
  const auto& known = names(family);
  Offer made{
      {1, end(known.server, backend_port)}, {2, end(known.remote_pod, backend_port)}, end(known.vip, port)};
  writer.service(1, {made.here});
  writer.backend(1, made.elsewhere);
  writer.frontend(made.where, protocol, 1, LB_LOAD_BALANCER);
  return made;
}

/// Removes a backend of service 1 as the agent does: from the selection first, then its `serving` flag.
void end_backend(Writer& writer, BackendSpec backend, const std::vector<BackendSpec>& others) {
  writer.service(1, others);
  backend.serving = LB_NO;
  writer.backend(1, backend);
}

/// The datapath checks a flow's backend once a second.
constexpr std::chrono::seconds recheck_interval{1};
/// A timeout, not a limit under test: the expected event comes within a second or two.
constexpr std::chrono::seconds timeout{60};

/// Sends every 20 ms until `done` returns true; returns false after `timeout`.
bool sends_until(const Socket& client, const End& where, const std::function<bool()>& done) {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < timeout) {
    static_cast<void>(client.send_to(where, "still there?"));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (done()) {
      return true;
    }
  }
  return false;
}

bool heard_by(const Socket& server) {
  char buffer[64];
  return ::recv(server.fd(), buffer, sizeof(buffer), MSG_DONTWAIT) > 0;
}

/// Waits until the flow's backend is due for a check, then returns whether messages reach the other backend
/// only. How long the machine takes to send does not matter.
bool moves(const Socket& client, const End& where, const Socket& from, const Socket& to) {
  std::this_thread::sleep_for(recheck_interval + std::chrono::milliseconds(100));
  while (heard_by(from)) {
  }
  return sends_until(client, where, [&] { return heard_by(to); }) && !heard_by(from);
}

/// Runs the test for an external client and for a pod, which use the same addresses. Each has a section of
/// its own, in which the test's sections run, too: Catch2 enters a section of one name once only.
template <class Test>
void for_each_client(Test test) {
  for (const int family : {AF_INET, AF_INET6}) {
    for (const auto client : {&PodScene::outside, &PodScene::client}) {
      DYNAMIC_SECTION(family_text(family) << (client == &PodScene::outside ? " outside" : " pod")) {
        PodScene scene(Wiring::routed);
        REQUIRE(scene.attach().failure().empty());
        Writer writer(scene.lab.pins());
        test(scene, writer, scene.*client, family);
      }
    }
  }
}

}  // namespace

TEST_CASE("REL-8 SEM-47 TCP flows stay with a backend that is gone until they end") {
  for_each_client([](const PodScene& scene, Writer& writer, const Host& from, int family) {
    const auto made = offer(writer, family, LB_TCP);
    const auto server = serve_at(scene.server, SOCK_STREAM, made.here.where);
    const auto other = serve_at(scene.remote, SOCK_STREAM, made.elsewhere.where);
    const auto client = from.socket(family, SOCK_STREAM);
    REQUIRE(client.connect(made.where) == 0);
    const auto taken = take(server);
    REQUIRE(pass(client.fd(), taken.get(), 1000));
    end_backend(writer, made.here, {made.elsewhere});
    CHECK(pass(client.fd(), taken.get(), 100'000));
    CHECK(pass(taken.get(), client.fd(), 100'000));
    CHECK(talk(from, other, SOCK_STREAM, made.where));
  });
}

TEST_CASE("REL-10 SEM-48 replies are translated after the service is gone, and one-way UDP ends") {
  for_each_client([](const PodScene& scene, Writer& writer, const Host& from, int family) {
    const auto made = offer(writer, family, LB_TCP);
    writer.frontend(made.where, LB_UDP, 1, LB_LOAD_BALANCER);
    const auto server = serve_at(scene.server, SOCK_STREAM, made.here.where);
    const auto hearer = serve_at(scene.server, SOCK_DGRAM, made.here.where);
    const auto client = from.socket(family, SOCK_STREAM);
    const auto speaker = from.socket(family, SOCK_DGRAM);
    REQUIRE(client.connect(made.where) == 0);
    const auto taken = take(server);
    REQUIRE(pass(client.fd(), taken.get(), 1000));
    REQUIRE(speaker.send_to(made.where, "one") == 0);
    REQUIRE(hearer.receive());
    for (const auto protocol : {LB_TCP, LB_UDP}) {
      writer.remove_frontend(made.where, protocol);
    }
    end_backend(writer, made.here, {});
    CHECK(pass(taken.get(), client.fd(), 100'000));
    CHECK(pass(client.fd(), taken.get(), 100'000));
    std::this_thread::sleep_for(recheck_interval + std::chrono::milliseconds(100));
    static_cast<void>(speaker.send_to(made.where, "two"));
    CHECK_FALSE(hearer.receive());
  });
}

TEST_CASE("REL-9 SEM-45 a UDP flow leaves a backend that stopped serving within a second") {
  for_each_client([&](const PodScene& scene, Writer& writer, const Host& from, int family) {
    const auto made = offer(writer, family, LB_UDP);
    const auto server = serve_at(scene.server, SOCK_DGRAM, made.here.where);
    const auto other = serve_at(scene.remote, SOCK_DGRAM, made.elsewhere.where);
    const auto client = from.socket(family, SOCK_DGRAM);
    REQUIRE(client.send_to(made.where, "words") == 0);
    REQUIRE(echo_once(server));
    REQUIRE(client.receive());
    SECTION("to another one") {
      end_backend(writer, made.here, {made.elsewhere});
      CHECK(moves(client, made.where, server, other));
    }
    SECTION("to nobody, and to the next one that comes (kubernetes#139628)") {
      end_backend(writer, made.here, {});
      const auto refused = writer.counters().no_backend_reject;
      REQUIRE(sends_until(client, made.where, [&] { return writer.counters().no_backend_reject > refused; }));
      writer.service(1, {made.elsewhere});
      CHECK(moves(client, made.where, server, other));
    }
  });
}

TEST_CASE("SEM-45 a UDP flow that --forwarding stack makes two of goes on as long as it is used") {
  for (const int family : {AF_INET, AF_INET6}) {
    INFO(family_text(family));
    PodScene scene(Wiring::routed);
    scene.options.forwarding = agent::Forwarding::stack;
    REQUIRE(scene.attach().failure().empty());
    Writer writer(scene.lab.pins());
    const auto made = offer(writer, family, LB_UDP);
    writer.service(1, {made.elsewhere});
    const auto server = serve_at(scene.remote, SOCK_DGRAM, made.elsewhere.where);
    const auto client = scene.outside.socket(family, SOCK_DGRAM);
    std::optional<End> seen;
    const auto rose = counter_deltas(writer, [&] {
      for (int second = 0; second < 3; ++second) {
        REQUIRE(client.send_to(made.where, "words") == 0);
        const auto source = echo_once(server);
        REQUIRE(source);
        CHECK(seen.value_or(*source) == *source);
        seen = source;
        CHECK(client.receive());
        std::this_thread::sleep_for(recheck_interval + std::chrono::milliseconds(100));
      }
    });
    CHECK(rose.new_local == 1);
    CHECK(rose.new_direct == 1);
  }
}

// ---- Connected UDP sockets, where they are not connected again (sockets/reconnected.cpp). ----

namespace {

using Names = std::vector<std::string>;

/// The datapath with socket programs, but without pods' devices, one service with two UDP backends at the
/// node's own addresses, and the cleanup of UDP sockets.
struct SocketScene : PodScene {
  explicit SocketScene(const Names& without = {}) : PodScene(Wiring::routed) {
    options.sockets = agent::SocketScope::all;
    options.without.emplace_back("socket-reconnect");
    options.without.insert(options.without.end(), without.begin(), without.end());
    REQUIRE(attach().failure().empty());
    writer.emplace(lab.pins());
  }

  /// Runs a round, and returns how many sockets it ended. Fails if it left any, or connected one.
  std::uint64_t end_sockets() const {
    const auto round = udp_round(*this);
    CHECK(round.reconnected == 0);
    CHECK(round.problem == std::string());
    CHECK(round.left == 0);
    return round.ended;
  }

  [[nodiscard]] Running occupy_pod() const { return occupy(client); }

  [[nodiscard]] bool ends_by_iterator() const { return datapath->udp_cleanup().destroys >= 0; }
  [[nodiscard]] bool ends_by_sock_diag() const { return datapath->udp_cleanup().ends_by_diag; }

  std::optional<Writer> writer;
};

/// The ways to end sockets: by sock_diag and the iterator, by sock_diag alone, by the iterator alone.
Names ways_to_end() { return GENERATE(Names{}, Names{"socket-destroy"}, Names{"sock-diag"}); }

}  // namespace

TEST_CASE("SEM-46 connected UDP sockets are ended when their backend is gone, in pods' namespaces too") {
  const auto without = ways_to_end();
  SocketScene scene(without);
  INFO("without " << (without.empty() ? "nothing" : without.front()));
  CHECK(scene.ends_by_sock_diag() == (without != Names{"sock-diag"}));
  if (!scene.ends_by_sock_diag() && !scene.ends_by_iterator()) {
    return;  // before Linux 6.5
  }
  const auto sleeper = scene.occupy_pod();
  for (const int family : {AF_INET, AF_INET6}) {
    INFO(family_text(family));
    const auto made = offer(*scene.writer, family, LB_UDP);
    const auto here = serve_at(scene.server, SOCK_DGRAM, made.here.where);
    const auto node = Host::here().socket(family, SOCK_DGRAM);
    const auto pod = scene.client.socket(family, SOCK_DGRAM);
    const auto mapped = scene.client.socket(AF_INET6, SOCK_DGRAM);
    for (const auto* socket : {&node, &pod, &mapped}) {
      REQUIRE(socket->connect(made.where) == 0);
      REQUIRE(socket->peer() == made.where);
    }
    CHECK(scene.end_sockets() == 0);
    end_backend(*scene.writer, made.here, {made.elsewhere});
    CHECK(scene.end_sockets() == 3);
    for (const auto* socket : {&node, &pod, &mapped}) {
      CHECK(pending_error(*socket) == ECONNABORTED);
      CHECK(socket->send("still there?") != 0);
    }
    CHECK(scene.end_sockets() == 0);
  }
}

TEST_CASE("SEM-46 connected UDP sockets without a backend are ended once there is one") {
  SocketScene scene(ways_to_end());
  if (!scene.ends_by_sock_diag() && !scene.ends_by_iterator()) {
    return;
  }
  const auto node = Host::here();
  const auto sleeper = scene.occupy_pod();
  for (const int family : {AF_INET, AF_INET6}) {
    const auto& known = names(family);
    const BackendSpec backend{1, end(known.server, backend_port)};
    const auto empty = end(known.service, port);
    const auto unknown = end(known.service, port + 1);
    const auto node_port = end(known.node, 30080);
    INFO(family_text(family));
    scene.writer->service(1, {});
    scene.writer->frontend(empty, LB_UDP, 1);
    scene.writer->address(known.service, LB_CLUSTER_ADDRESS);
    scene.writer->node_port(node_port.address, node_port.port, LB_UDP, 1);
    scene.writer->address(known.node, LB_NODE_PORT_ADDRESS);
    std::vector<Socket> sockets;
    for (const auto& where : {empty, unknown, node_port}) {
      for (const auto* host : {&node, &std::as_const(scene.client)}) {
        sockets.push_back(host->socket(family, SOCK_DGRAM));
        REQUIRE(sockets.back().connect(where) == 0);
        REQUIRE(sockets.back().peer() == where);
      }
    }
    CHECK(scene.end_sockets() == 0);
    scene.writer->service(1, {backend});
    scene.writer->frontend(unknown, LB_UDP, 1);
    CHECK(scene.end_sockets() == sockets.size());
    const auto server = serve_at(scene.server, SOCK_DGRAM, backend.where);
    for (const auto& socket : sockets) {
      CHECK(pending_error(socket) == ECONNABORTED);
      REQUIRE(socket.connect(empty) == 0);
      CHECK(socket.send("somebody!") == 0);
      CHECK(server.receive());
    }
    CHECK(scene.end_sockets() == 0);
  }
}

TEST_CASE("SEM-46 connected UDP sockets are ended when another service, or none, has their frontend") {
  SocketScene scene(ways_to_end());
  if (!scene.ends_by_sock_diag() && !scene.ends_by_iterator()) {
    return;
  }
  const bool passes = GENERATE(true, false);
  const auto node = Host::here();
  const auto sleeper = scene.occupy_pod();
  for (const int family : {AF_INET, AF_INET6}) {
    INFO(family_text(family) << (passes ? ", another service" : ", none"));
    const auto& known = names(family);
    const auto made = offer(*scene.writer, family, LB_UDP);
    const auto node_port = end(known.node, 30080);
    scene.writer->node_port(node_port.address, node_port.port, LB_UDP, 1);
    scene.writer->address(known.node, LB_NODE_PORT_ADDRESS);
    const auto zero = end(family == AF_INET ? "0.0.0.0" : "::", node_port.port);
    std::vector<Socket> sockets;
    for (const auto& where : {made.where, node_port}) {
      for (const auto* host : {&node, &std::as_const(scene.client)}) {
        sockets.push_back(host->socket(family, SOCK_DGRAM));
        REQUIRE(sockets.back().connect(where) == 0);
      }
    }
    CHECK(scene.end_sockets() == 0);
    scene.writer->service(2, {made.elsewhere});
    for (const auto& where : {made.where, zero}) {
      if (passes) {
        scene.writer->frontend(where, LB_UDP, 2, where == zero ? LB_NODE_PORT : LB_LOAD_BALANCER);
      } else {
        scene.writer->remove_frontend(where, LB_UDP);
      }
    }
    CHECK(scene.end_sockets() == sockets.size());
    for (const auto& socket : sockets) {
      CHECK(pending_error(socket) == ECONNABORTED);
    }
    CHECK(scene.end_sockets() == 0);
  }
}

TEST_CASE("SEM-46 a kernel that cannot end sockets is reported") {
  SocketScene scene({"socket-destroy", "sock-diag"});
  const std::string missing = scene.datapath->page().read().missing;
  CHECK(missing.find("sock-diag off: UDP sockets not ended") != std::string::npos);
  CHECK_FALSE((scene.ends_by_iterator() || scene.ends_by_sock_diag()));
  CHECK(scene.datapath->udp_cleanup().finds < 0);
  CHECK(scene.datapath->udp_cleanup().lists < 0);
}

TEST_CASE(
    "REL-71 sockets that are unconnected, untranslated or connected to a serving backend are left alone") {
  SocketScene scene(ways_to_end());
  if (!scene.ends_by_sock_diag() && !scene.ends_by_iterator()) {
    return;
  }
  const auto made = offer(*scene.writer, AF_INET, LB_UDP);
  const auto here = serve_at(scene.server, SOCK_DGRAM, made.here.where);
  const auto elsewhere = serve_at(scene.remote, SOCK_DGRAM, made.elsewhere.where);
  const auto unconnected = Host::here().socket(AF_INET, SOCK_DGRAM);
  const auto direct = Host::here().socket(AF_INET, SOCK_DGRAM);
  const auto serving = Host::here().socket(AF_INET, SOCK_DGRAM);
  REQUIRE(unconnected.send_to(made.where, "words") == 0);
  REQUIRE(direct.connect(made.here.where) == 0);
  const auto name = unconnected.name();
  scene.writer->service(2, {{3, made.elsewhere.where}});
  scene.writer->frontend(end("10.96.0.2", port), LB_UDP, 2);
  REQUIRE(serving.connect(end("10.96.0.2", port)) == 0);
  end_backend(*scene.writer, made.here, {made.elsewhere});
  CHECK(scene.end_sockets() == 0);
  CHECK(unconnected.name() == name);
  CHECK(unconnected.send_to(made.where, "again") == 0);
  CHECK(elsewhere.receive());
  CHECK(direct.send("still there?") == 0);
  CHECK(serving.send("still there?") == 0);
}

namespace {

/// How often the kernel ran a program while `act` ran.
std::uint64_t runs_of(int program, const std::function<void()>& act) {
  const auto count = [program] {
    bpf_prog_info info{};
    std::uint32_t size = sizeof(info);
    REQUIRE(bpf_prog_get_info_by_fd(program, &info, &size) == 0);
    return info.run_cnt;
  };
  const maps::Fd counting(bpf_enable_stats(BPF_STATS_RUN_TIME));
  REQUIRE(counting);
  const auto before = count();
  act();
  return count() - before;
}

/// A network namespace that is found by a process, and whose sockets reach any address.
struct Pod {
  Pod() : sleeper(occupy(host)) { host.run("ip route add default dev lo"); }
  Host host;
  Running sleeper;
  std::vector<Socket> sockets;
};

}  // namespace

TEST_CASE("REL-161 SEM-46 ending sockets costs passes and the sockets that are ended, in their namespaces") {
  constexpr std::size_t many = 12'000;
  constexpr std::size_t pod_count = 50;
  constexpr std::size_t hit_pods = 5;
  constexpr std::size_t lost_of_each = 20;
  allow_descriptors(many + 4096);
  SocketScene scene;
  if (scene.datapath->udp_cleanup().finds < 0) {
    return;  // the kernel lets no program iterate over sockets' storage
  }
  const auto made = offer(*scene.writer, AF_INET, LB_UDP);
  const auto other = end("10.96.0.2", port);
  scene.writer->service(2, {{3, made.elsewhere.where}});
  scene.writer->frontend(other, LB_UDP, 2);
  std::vector<std::unique_ptr<Pod>> pods;
  std::size_t failed = 0;
  for (std::size_t at = 0; at < pod_count; ++at) {
    auto& pod = *pods.emplace_back(std::make_unique<Pod>());
    for (std::size_t count = 0; count < many / pod_count; ++count) {
      pod.sockets.push_back(pod.host.socket(AF_INET, SOCK_DGRAM));
      const bool is_lost = at < hit_pods && count < lost_of_each;
      failed += pod.sockets.back().connect(is_lost ? made.where : other) == 0 ? 0U : 1U;
    }
  }
  REQUIRE(failed == 0);
  end_backend(*scene.writer, made.here, {made.elsewhere});
  agent::UdpRound round;
  const auto runs = runs_of(scene.datapath->udp_cleanup().finds, [&] { round = udp_round(scene); });
  CHECK(round.ended == hit_pods * lost_of_each);
  CHECK(round.passes == 2);
  CHECK(round.entered == hit_pods);
  CHECK(round.walked == 0);
  CHECK(runs >= round.passes * many);
  CHECK(runs <= round.passes * (many + many / 100));  // some runs say that a part or the pass is over
  CHECK(round.left == 0);
  CHECK(round.problem == std::string());
  for (std::size_t at = 0; at < pod_count; ++at) {
    CHECK((pending_error(pods[at]->sockets.front()) == ECONNABORTED) == (at < hit_pods));
    CHECK(pending_error(pods[at]->sockets.back()) == 0);
  }
}

TEST_CASE("REL-161 of sockets that share addresses and ports each is ended, and the others stay") {
  SocketScene scene(GENERATE(Names{}, Names{"socket-destroy"}));
  const auto made = offer(*scene.writer, AF_INET, LB_UDP);
  const auto local = end(names(AF_INET).node, 5353);
  const auto shared = [&] {
    auto socket = Host::here().socket(AF_INET, SOCK_DGRAM);
    const int on = 1;
    REQUIRE(::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0);
    REQUIRE(socket.bind(local) == 0);
    return socket;
  };
  const std::array lost = {shared(), shared(), shared()};
  for (const auto& socket : lost) {
    REQUIRE(socket.connect(made.where) == 0);
  }
  end_backend(*scene.writer, made.here, {made.elsewhere});
  SECTION("all of them lost their backend") { CHECK(scene.end_sockets() == lost.size()); }
  SECTION("one of them talks directly, and is found first") {
    const auto direct = shared();
    REQUIRE(direct.connect(made.here.where) == 0);
    const auto round = udp_round(scene);
    CHECK(round.ended + round.left == lost.size());
    CHECK((round.left == 0 || !scene.ends_by_iterator()));
    CHECK(pending_error(direct) == 0);
  }
  for (const auto& socket : lost) {
    CHECK((!scene.ends_by_iterator() || pending_error(socket) == ECONNABORTED));
  }
}

TEST_CASE("REL-161 sockets in a network namespace to which nothing leads are left, and reported") {
  SocketScene scene(ways_to_end());
  if (scene.datapath->udp_cleanup().finds < 0) {
    return;  // without a pass over storage such sockets are not seen
  }
  const auto made = offer(*scene.writer, AF_INET, LB_UDP);
  const auto node = Host::here().socket(AF_INET, SOCK_DGRAM);
  const auto pod = scene.client.socket(AF_INET, SOCK_DGRAM);
  REQUIRE(node.connect(made.where) == 0);
  REQUIRE(pod.connect(made.where) == 0);
  end_backend(*scene.writer, made.here, {made.elsewhere});
  const auto round = udp_round(scene);
  CHECK(round.ended == 1);
  CHECK(round.left == 1);
  CHECK(round.passes == 2);
  CHECK(round.problem == "neither a process nor a file in /run/netns leads to some namespaces");
  CHECK(pending_error(node) == ECONNABORTED);
  CHECK(pending_error(pod) == 0);
  const auto sleeper = scene.occupy_pod();
  CHECK(scene.end_sockets() == 1);
  CHECK(pending_error(pod) == ECONNABORTED);
}

}  // namespace lb::test
