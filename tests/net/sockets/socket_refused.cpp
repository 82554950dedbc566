// SPDX-License-Identifier: Apache-2.0
// UDP sockets that connect to a service without endpoints: the call succeeds, what is sent is rejected by the
// packet hooks, and the socket's next call returns the error, as where rules of the host translate packets
// (SEM-31).
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cerrno>

#include "tests/lib/paths.hpp"
#include "tests/net/lib/pod_scene.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t unknown_port = 81;

/// The error of the call after a message, once the message's reply has come; 0: no reply.
int error_after_sending(const Socket& socket) {
  if (const int error = socket.send("anybody?"); error != 0) {
    return error;
  }
  pollfd wait{socket.fd(), 0, 0};
  return ::poll(&wait, 1, 10'000) == 1 ? socket.send("anybody?") : 0;
}

/// Whether the programs see pods' packets at the pods' own devices, or only where they leave the node.
enum class PodDevices : std::uint8_t { served, not_named };

struct RefusingScene : PodScene {
  explicit RefusingScene(PodDevices pods) : PodScene(Wiring::routed) {
    options.sockets = agent::SocketScope::all;
    if (pods == PodDevices::not_named) {
      options.pod_devices.clear();
    }
    REQUIRE(attach().failure().empty());
    Writer writer(lab.pins());
    writer.service(1, {});
    for (const int family : {AF_INET, AF_INET6}) {
      writer.frontend(end(names(family).service, port), LB_UDP, 1);
      writer.address(names(family).service, LB_CLUSTER_ADDRESS);
    }
  }
};

}  // namespace

TEST_CASE("SEM-31 a UDP socket that connected to what a ClusterIP does not serve is refused when it sends") {
  const auto pods = GENERATE(PodDevices::served, PodDevices::not_named);
  const RefusingScene scene(pods);
  for (const int family : {AF_INET, AF_INET6}) {
    const auto& known = names(family);
    for (const auto number : {port, unknown_port}) {
      const auto where = end(known.service, number);
      INFO(text(where) << (pods == PodDevices::served ? ", devices served" : ", devices not named"));
      const auto node = Host::here().socket(family, SOCK_DGRAM);
      REQUIRE(node.connect(where) == 0);
      CHECK(node.name()->address.text() == known.node);
      CHECK(node.peer() == where);
      CHECK(error_after_sending(node) == ECONNREFUSED);
      const auto pod = scene.client.socket(family, SOCK_DGRAM);
      REQUIRE(pod.connect(where) == 0);
      CHECK(pod.name()->address.text() == known.client);
      CHECK(error_after_sending(pod) == ECONNREFUSED);
    }
  }
}

// glibc connects UDP sockets to the requested port to find out to which addresses there is a route.
TEST_CASE("SEM-31 getaddrinfo in a pod without IPv6 sorts a dual-stack service's IPv4 address first") {
  const RefusingScene scene(PodDevices::served);
  scene.client.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1");
  const auto words = scene.client.output(fmt::format(
      "exec unshare --mount /usr/bin/python3 {} {} {} {}", source_path("tests/net/lib/getaddrinfo_order.py"),
      unknown_port, names(AF_INET6).service, names(AF_INET).service));
  CHECK(words == names(AF_INET).service);
}

}  // namespace lb::test
