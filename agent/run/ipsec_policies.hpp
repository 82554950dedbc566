// Applies this node's IPsec policies: packets that a program redirects bypass them, so new flows to what they
// cover are refused, and existing ones are ended.
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
  /// Reads the policies. `changed` is called from the context after each change. What is referred to must
  /// outlive this.
  IpsecPolicies(boost::asio::io_context& context, maps::MapSet& maps, Targets targets,
                std::function<void()> changed);

  [[nodiscard]] bool any() const { return xfrm_.policies().count > 0; }
  /// Logs and reports how many there are; from the next NodePublisher::apply_ranges() on programs refuse new
  /// flows to what they bind.
  void apply();
  /// Ends the flows that are redirected there; programs must refuse new ones before.
  void end_redirected_flows();

 private:
  Targets targets_;
  RedirectedFlows redirected_flows_;
  XfrmWatch xfrm_;
};

}  // namespace lb::agent
