// SPDX-License-Identifier: Apache-2.0
// Follows this node's devices and addresses over an rtnetlink socket in the agent's io_context.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

#include "agent/netlink/node_network.hpp"

namespace lb::agent {

class NodeWatch {
 public:
  /// `changed` is called when network() is whole for the first time, and after each burst of changes. Throws
  /// StartError if the kernel refuses the socket.
  NodeWatch(boost::asio::io_context& context, std::function<void()> changed, Routes routes = Routes::ignored);
  NodeWatch(const NodeWatch&) = delete;
  NodeWatch& operator=(const NodeWatch&) = delete;
  ~NodeWatch();

  [[nodiscard]] const NodeNetwork& network() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Reads the current network synchronously: blocks until the dump is complete. Throws StartError if the
/// kernel refuses the socket.
[[nodiscard]] NodeNetwork read_network(Routes routes);

}  // namespace lb::agent
