// SPDX-License-Identifier: Apache-2.0
// Reads the rtnetlink socket until it is empty, or another list of routes is asked for, then reports once.
#include "agent/netlink/node_watch.hpp"

#include <fmt/format.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "agent/base/error.hpp"

namespace lb::agent {
namespace {

namespace asio = boost::asio;

constexpr std::uint32_t device_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_TC;
constexpr std::uint32_t route_groups = RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;

int open_socket(Routes routes) {
  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = device_groups | (routes == Routes::followed ? route_groups : 0);
  if (fd < 0 || ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const auto reason = std::string(std::strerror(errno));
    if (fd >= 0) {
      ::close(fd);
    }
    throw StartError(
        fmt::format("cannot follow the node's devices and addresses ({}): allow AF_NETLINK sockets", reason));
  }
  return fd;
}

}  // namespace

struct NodeWatch::State {
  State(asio::io_context& context, std::function<void()> notify, Routes routes)
      : socket(context, open_socket(routes)), changed(std::move(notify)), dump(routes) {}

  void start_over() {
    dump.begin();
    send_request();
  }
  void send_request() {
    const auto request = dump.request();
    // A failed send shows as a dump that never ends; the kernel accepts every request while the socket has
    // room.
    static_cast<void>(::send(socket.native_handle(), request.data(), request.size(), 0));
  }
  void wait();
  void drain();
  [[nodiscard]] std::optional<std::span<const std::byte>> receive();

  asio::posix::stream_descriptor socket;
  std::function<void()> changed;
  RtnetlinkDump dump;
  bool lost = false;  ///< messages were lost because the socket was full
  std::array<std::byte, 65536> buffer{};
};

void NodeWatch::State::wait() {
  socket.async_wait(asio::posix::stream_descriptor::wait_read,
                    [this](const boost::system::error_code& error) {
                      if (!error) {
                        drain();
                        wait();
                      }
                    });
}

// Returns nullopt when the socket is empty, and an empty datagram for one that the kernel did not send.
std::optional<std::span<const std::byte>> NodeWatch::State::receive() {
  sockaddr_nl sender{};
  socklen_t size = sizeof(sender);
  const auto length = ::recvfrom(socket.native_handle(), buffer.data(), buffer.size(), 0,
                                 reinterpret_cast<sockaddr*>(&sender), &size);
  if (length < 0 && errno == ENOBUFS) {
    lost = true;
    return std::span<const std::byte>();
  }
  if (length < 0) {
    return std::nullopt;
  }
  return std::span<const std::byte>(buffer.data(), sender.nl_pid == 0 ? static_cast<std::size_t>(length) : 0);
}

void NodeWatch::State::drain() {
  bool notify = false;
  while (const auto datagram = receive()) {
    switch (dump.receive(*datagram)) {
      case RtnetlinkDump::Next::wait:
        break;
      case RtnetlinkDump::Next::send:
        notify = false;
        send_request();
        break;
      case RtnetlinkDump::Next::notify_and_send:
        if (lost) {
          break;
        }
        send_request();
        // The socket is not empty before the dump's end, which may lead to another dump. It is read after
        // this report.
        return changed();
      case RtnetlinkDump::Next::notify:
        notify = true;
        break;
    }
  }
  // Starts over only once the socket is empty, so that it has room for every reply: otherwise EBUSY for a
  // dump still under way would be lost too, and the end of that dump is not the awaited one.
  if (std::exchange(lost, false)) {
    start_over();
  } else if (notify) {
    changed();
  }
}

NodeWatch::NodeWatch(asio::io_context& context, std::function<void()> changed, Routes routes)
    : state_(std::make_unique<State>(context, std::move(changed), routes)) {
  state_->start_over();
  state_->wait();
}

NodeWatch::~NodeWatch() = default;

NodeNetwork read_network(Routes routes) {
  asio::io_context context;
  const NodeWatch watch(context, [&context] { context.stop(); }, routes);
  context.run_for(std::chrono::seconds(5));
  return watch.network();
}

const NodeNetwork& NodeWatch::network() const noexcept { return state_->dump.network(); }

}  // namespace lb::agent
