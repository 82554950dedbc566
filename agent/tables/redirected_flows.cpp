// SPDX-License-Identifier: Apache-2.0
// Which flows bypass IPsec policies.
#include "agent/tables/redirected_flows.hpp"

#include <algorithm>
#include <utility>

namespace lb::agent {
namespace {

/// Whether the flow's translated packets bypass the policies. Redirected packets pass none, and packets
/// translated at egress have passed them before, with other addresses. A pod's packets to itself do not leave
/// the node.
bool passes_policies_by(const lb_track& track) {
  return track.side == LB_UPLINK_EGRESS ||
         (track.side == LB_UPLINK_INGRESS && track.path == LB_PATH_REDIRECT);
}

}  // namespace

RedirectedFlows::RedirectedFlows(boost::asio::io_context& context, maps::MapSet& maps,
                                 std::function<void(std::size_t entries)> ended)
    : sweep_(context, maps, std::move(ended), "flows to peers with an IPsec policy may go on in the clear") {}

void RedirectedFlows::end(std::vector<k8s::Prefix> towards) {
  if (towards.empty()) {
    return sweep_.stop();
  }
  sweep_.start([towards = std::move(towards)](const SweptEntry& entry) {
    return passes_policies_by(entry.track) && std::ranges::any_of(towards, [&](const auto& range) {
             return range.contains(entry.leaving_destination);
           });
  });
}

}  // namespace lb::agent
