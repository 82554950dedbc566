// SPDX-License-Identifier: Apache-2.0
// IPsec policies of this node (xfrm), whose traffic the stack encrypts or blocks. Packets that a program
// redirects bypass all of them.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "agent/netlink/netlink.hpp"
#include "k8s/objects/model.hpp"

struct nlmsghdr;

namespace lb::agent {

struct XfrmPolicies {
  std::size_t count = 0;            ///< policies that apply to leaving packets
  std::vector<k8s::Prefix> ranges;  ///< peers covered by these policies, ascending, each once
  bool operator==(const XfrmPolicies&) const = default;
};

/// Takes one message of the kernel: a policy, or the default policy. Pure; malformed messages are ignored.
void take_policy(XfrmPolicies& policies, const nlmsghdr& head, netlink::Bytes body);

/// Follows the policies. On a kernel without IPsec there are none.
class XfrmWatch {
 public:
  /// `changed` is called from the context after each change. The constructor reads the policies for the first
  /// time.
  XfrmWatch(boost::asio::io_context& context, std::function<void()> changed);
  XfrmWatch(const XfrmWatch&) = delete;
  XfrmWatch& operator=(const XfrmWatch&) = delete;
  ~XfrmWatch();

  [[nodiscard]] const XfrmPolicies& policies() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lb::agent
