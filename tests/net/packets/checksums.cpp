// SPDX-License-Identifier: Apache-2.0
// REL-16: checksums that the sender left to its card and that the datapath updated are completed by the
// node's kernel, because the outgoing device has no checksum offload. The receivers verify every checksum.
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t backend_port = 8080;

struct Path {
  const char* name;
  Host PodScene::* from;
  Host PodScene::* to;
  std::string PodNames::* backend;
  lb_kind kind;
};

const std::vector<Path> paths = {
    {"outside to a pod elsewhere", &PodScene::outside, &PodScene::remote, &PodNames::remote_pod,
     LB_LOAD_BALANCER},
    {"outside to a pod here", &PodScene::outside, &PodScene::server, &PodNames::server, LB_LOAD_BALANCER},
    {"pod to a pod elsewhere", &PodScene::client, &PodScene::remote, &PodNames::remote_pod, LB_CLUSTER_IP},
    {"pod to a pod here", &PodScene::client, &PodScene::server, &PodNames::server, LB_CLUSTER_IP},
    {"pod to itself", &PodScene::client, &PodScene::client, &PodNames::client, LB_CLUSTER_IP},
};

/// The hosts leave checksums to their devices and verify received ones; the node's devices have no offload.
void leave_sums_to_the_node(const PodScene& scene) {
  for (const auto* host : {&scene.remote, &scene.outside, &scene.client, &scene.server}) {
    host->run("ethtool -K eth0 tx on rx off >/dev/null");
    REQUIRE_THAT(host->output("ethtool -k eth0"), Catch::Matchers::ContainsSubstring("tx-checksumming: on"));
  }
  for (const auto* device : {"eth0", "pods2", "pods3"}) {
    shell(fmt::format("ethtool -K {} tx off >/dev/null", device));
  }
}

std::string random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string made(size, '\0');
  for (auto& byte : made) {
    byte = static_cast<char>(random());
  }
  return made;
}

/// Reads `size` bytes; returns fewer if nothing arrives for three seconds.
std::string read_from(int connected, std::size_t size) {
  std::string got;
  std::string buffer(65536, '\0');
  pollfd wait{connected, POLLIN, 0};
  while (got.size() < size && ::poll(&wait, 1, 3000) == 1) {
    const auto count = ::recv(connected, buffer.data(), buffer.size(), 0);
    if (count <= 0) {
      break;
    }
    got.append(buffer, 0, static_cast<std::size_t>(count));
  }
  return got;
}

/// Sends data each way 20 times; each piece fits the sockets' buffers.
bool carry_by_tcp(int client, int server) {
  for (unsigned round = 0; round < 20; ++round) {
    const auto words = random_bytes(1 + round * 1009, round);
    for (const auto& [from, to] : {std::pair(client, server), std::pair(server, client)}) {
      if (::send(from, words.data(), words.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(words.size()) ||
          read_from(to, words.size()) != words) {
        return false;
      }
    }
  }
  return true;
}

bool carry_by_udp(const Socket& client, const Socket& server, const End& where) {
  for (unsigned round = 0; round < 20; ++round) {
    const auto words = random_bytes(1 + round * 69, round);
    if (client.send_to(where, words) != 0) {
      return false;
    }
    const auto question = server.receive();
    if (!question || question->words != words || server.send_to(question->from, words) != 0) {
      return false;
    }
    const auto answer = client.receive();
    if (!answer || answer->words != words || !(answer->from == where)) {
      return false;
    }
  }
  return true;
}

void set_udp(const Socket& socket, int option, int value) {
  REQUIRE(::setsockopt(socket.fd(), IPPROTO_UDP, option, &value, sizeof(value)) == 0);
}

constexpr int segment = 1000;

/// Receives messages until they have `size` bytes together, whether or not GRO merged them; returns the data
/// and its source.
std::optional<Socket::Message> gather(const Socket& socket, std::size_t size) {
  auto all = socket.receive();
  while (all && all->words.size() < size) {
    const auto more = socket.receive();
    if (!more || !(more->from == all->from)) {
      return std::nullopt;
    }
    all->words += more->words;
  }
  return all;
}

/// Sends datagrams that the sender's kernel or its device segments, or that reach the receiver unsegmented.
bool carry_segments(const Socket& client, const Socket& server, const End& where) {
  for (const auto* socket : {&client, &server}) {
    set_udp(*socket, UDP_SEGMENT, segment);
    set_udp(*socket, UDP_GRO, 1);
  }
  for (unsigned round = 0; round < 10; ++round) {
    const auto words = random_bytes(2 * segment + round * 2013, round);
    if (client.send_to(where, words) != 0) {
      return false;
    }
    const auto question = gather(server, words.size());
    if (!question || question->words != words || server.send_to(question->from, words) != 0) {
      return false;
    }
    const auto answer = gather(client, words.size());
    if (!answer || answer->words != words || !(answer->from == where)) {
      return false;
    }
  }
  return true;
}

bool carry(const PodScene& scene, const Path& path, int family, int type, const End& where) {
  const auto server = serve_at(scene.*path.to, type, end(names(family).*path.backend, backend_port));
  const auto client = (scene.*path.from).socket(family, type);
  if (type == SOCK_DGRAM) {
    return carry_by_udp(client, server, where) && carry_segments(client, server, where);
  }
  if (client.connect(where) != 0) {
    return false;
  }
  const auto taken = take(server);
  return taken && carry_by_tcp(client.fd(), taken.get());
}

}  // namespace

TEST_CASE("REL-16 partial sums that we rewrote are completed by the node and right at the receiver") {
  PodScene scene(Wiring::routed);
  leave_sums_to_the_node(scene);
  REQUIRE(scene.attach().pod_failure().empty());
  Writer writer(scene.lab.pins());
  for (const int family : {AF_INET, AF_INET6}) {
    for (const auto& path : paths) {
      const auto where = end(path.kind == LB_CLUSTER_IP ? names(family).service : names(family).vip, port);
      writer.service(1, {{1, end(names(family).*path.backend, backend_port)}});
      for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
        INFO((family == AF_INET ? "IPv4 " : "IPv6 ")
             << (type == SOCK_STREAM ? "TCP, " : "UDP, ") << path.name);
        writer.frontend(where, type == SOCK_STREAM ? LB_TCP : LB_UDP, 1, path.kind);
        CHECK(carry(scene, path, family, type, where));
      }
    }
  }
}

}  // namespace lb::test
