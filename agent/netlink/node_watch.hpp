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
  /// StartError where the kernel gives no such socket.
  NodeWatch(boost::asio::io_context& context, std::function<void()> changed, Routes routes = Routes::ignored);
  NodeWatch(const NodeWatch&) = delete;
  NodeWatch& operator=(const NodeWatch&) = delete;
  ~NodeWatch();

  [[nodiscard]] const NodeNetwork& network() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What there is now: waits for the kernel. Throws StartError where it gives no such socket.
[[nodiscard]] NodeNetwork read_network(Routes routes);

}  // namespace lb::agent
