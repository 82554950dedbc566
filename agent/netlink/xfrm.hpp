// IPsec policies of this node (xfrm): whose traffic the stack encrypts or blocks. Packets that a program
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
  std::size_t count = 0;            ///< that bind what leaves
  std::vector<k8s::Prefix> ranges;  ///< whom they concern, in ascending order, each once
  bool operator==(const XfrmPolicies&) const = default;
};

/// Takes one message of the kernel's: a policy, or the default where none matches. Pure; what is malformed
/// says nothing.
void take_policy(XfrmPolicies& policies, const nlmsghdr& head, netlink::Bytes body);

/// Follows the policies. A kernel without IPsec has none.
class XfrmWatch {
 public:
  /// `changed` is called from the context after each change. The first look is taken here.
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
