// SPDX-License-Identifier: Apache-2.0
// REL-176: an unprivileged process binds every port from which source NAT takes its own.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "agent/netlink/conntrack_keepalive.hpp"
#include "tests/net/lib/paths.hpp"
#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t backend_port = 8080;
constexpr std::size_t all_ports = 33'512;
constexpr std::ptrdiff_t of_a_process =
    12'000;  // no process may raise its hard limit without CAP_SYS_RESOURCE
constexpr uid_t nobody = 65'534;
constexpr std::size_t clients = 20;

/// Binds these ports of the host for both families as user nobody. Returns the number of those that it could
/// not.
std::size_t bind_ports(std::vector<Socket>& bound, const std::vector<std::uint16_t>& ports) {
  const auto host = Host::here();
  for (std::size_t count = 0; count < ports.size(); ++count) {
    bound.push_back(host.socket(AF_INET6, SOCK_DGRAM));
  }
  if (::setresuid(nobody, nobody, nobody) != 0) {
    return ports.size();
  }
  std::size_t failed = 0;
  for (std::size_t at = 0; at < ports.size(); ++at) {
    failed += bound[at].bind(end("::", ports[at])) == 0 ? 0U : 1U;
  }
  return failed;
}

/// A process that binds these ports, and holds them until it is ended.
Running holder(const std::vector<std::uint16_t>& ports) {
  allow_descriptors(ports.size() + 1024);
  std::array<int, 2> pipe{};
  REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
  const auto process = ::fork();
  if (process == 0) {
    ::setpgid(0, 0);  // as Running ends it
    std::vector<Socket> bound;
    const auto failed = bind_ports(bound, ports);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    static_cast<void>(::write(pipe[1], &failed, sizeof(failed)));
    for (;;) {
      ::pause();
    }
  }
  ::setpgid(process, process);
  Running running(process);
  ::close(pipe[1]);
  std::size_t failed = ports.size();
  CHECK(::read(pipe[0], &failed, sizeof(failed)) == sizeof(failed));
  ::close(pipe[0]);
  CHECK(failed == 0);
  return running;
}

/// Processes that hold the default source ports, as many as their limits of descriptors need.
std::vector<Running> bind_all() {
  std::vector<std::uint16_t> ports;
  for (const auto& [first, last] : {std::pair{1024, 29'999}, std::pair{61'000, 65'535}}) {
    for (int port = first; port <= last; ++port) {
      ports.push_back(static_cast<std::uint16_t>(port));
    }
  }
  REQUIRE(ports.size() == all_ports);
  std::vector<Running> holders;
  for (auto from = ports.begin(); from != ports.end();) {
    const auto to = from + std::min(of_a_process, ports.end() - from);
    holders.push_back(holder({from, to}));
    from = to;
  }
  return holders;
}

/// What is counted while clients outside ask a backend elsewhere, whose node sees this node as their source.
lb_stats asked(const PodScene& scene, Writer& writer, int family, std::size_t answered) {
  const auto& known = names(family);
  const auto backend = end(known.remote_pod, backend_port);
  const auto where = offer(writer, 1, load_balancer, known, backend, LB_UDP);
  const auto server = serve_at(scene.remote, SOCK_DGRAM, backend);
  return counter_deltas(writer, [&] {
    std::size_t count = 0;
    for (std::size_t at = 0; at < answered; ++at) {
      const auto seen = exchange(scene.outside, server, SOCK_DGRAM, where);
      count += seen && seen->address == end(known.node, 0).address ? 1U : 0U;
    }
    CHECK(count == answered);
    if (answered == 0) {
      CHECK_FALSE(exchange(scene.outside, server, SOCK_DGRAM, where));
    }
  });
}

}  // namespace

TEST_CASE("REL-176 a process that binds all source ports of UDP does not stop source NAT", "[features]") {
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  for (const int family : {AF_INET, AF_INET6}) {
    REQUIRE_FALSE(agent::keep_tracking(family, "ours"));
  }
  const auto bound = bind_all();
  for (const int family : {AF_INET, AF_INET6}) {
    INFO((family == AF_INET ? "IPv4" : "IPv6"));
    const auto rose = asked(scene, writer, family, clients);
    CHECK(rose.new_remote + rose.new_xdp == clients);
    CHECK(rose.ports_exhausted == 0);
  }
}

TEST_CASE("REL-176 where programs cannot ask conntrack a bound port is in use") {
  PodScene scene(Wiring::routed);
  scene.options.without.emplace_back("ct-lookup");
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  const auto bound = bind_all();
  for (const int family : {AF_INET, AF_INET6}) {
    INFO((family == AF_INET ? "IPv4" : "IPv6"));
    CHECK(asked(scene, writer, family, 0).ports_exhausted == 1);
  }
}

}  // namespace lb::test
