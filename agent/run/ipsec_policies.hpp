// SPDX-License-Identifier: Apache-2.0
// Applies this node's IPsec policies: packets that a program redirects bypass them, so new flows to covered
// addresses are refused, and existing ones are ended.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>

#include "agent/datapath/coexistence.hpp"
#include "agent/netlink/xfrm.hpp"
#include "agent/run/node_publisher.hpp"
#include "agent/tables/redirected_flows.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

class IpsecPolicies {
 public:
  struct Targets {
    NodePublisher& node;
    Coexistence& coexistence;
  };
  /// Reads the policies. `changed` is called from the context after each change. All referenced objects must
  /// outlive this.
  IpsecPolicies(boost::asio::io_context& context, maps::MapSet& maps, Targets targets,
                std::function<void()> changed);

  [[nodiscard]] bool any() const { return xfrm_.policies().count > 0; }
  /// Logs and reports the number of policies; after the next NodePublisher::apply_ranges() programs refuse
  /// new flows to the covered addresses.
  void apply();
  /// Call after the tables were written: while they lack a range, programs refuse all new flows that they
  /// would redirect, and `status` says so.
  void publish_policy();
  /// Ends redirected flows to covered addresses; programs must already refuse new ones.
  void end_redirected_flows();

 private:
  Targets targets_;
  RedirectedFlows redirected_flows_;
  XfrmWatch xfrm_;
};

}  // namespace lb::agent
