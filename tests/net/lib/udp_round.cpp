// SPDX-License-Identifier: Apache-2.0
// Rounds run in a thread of their own; the io_context takes their report.
#include "tests/net/lib/udp_round.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>

#include "agent/attach/stale_udp_socket_closer.hpp"
#include "agent/netlink/netns.hpp"

namespace lb::test {
namespace {

/// A timeout, not a limit under test.
constexpr std::chrono::seconds timeout{60};

}  // namespace

agent::UdpRound udp_round(const PodScene& scene) {
  boost::asio::io_context context;
  std::optional<agent::UdpRound> reported;
  agent::StaleUdpSocketCloser sockets(context, scene.datapath->udp_cleanup(), agent::Namespaces::all,
                                      [&](const agent::UdpRound& round) { reported = round; });
  sockets.check_soon();
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!reported && !context.stopped() && std::chrono::steady_clock::now() < deadline) {
    context.run_one_for(std::chrono::seconds(1));
  }
  REQUIRE(reported);
  return *reported;
}

int pending_error(const Socket& socket) {
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

Running occupy(const Host& host) {
  auto sleeper = host.start("exec sleep 600");
  const auto is_found = [own = host.space().path()] {
    return std::ranges::any_of(agent::network_namespaces(), [&](const agent::Netns& netns) {
      std::error_code gone;
      return std::filesystem::equivalent(netns.file, own, gone);
    });
  };
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!is_found() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  REQUIRE(is_found());
  return sleeper;
}

}  // namespace lb::test
