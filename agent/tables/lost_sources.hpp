// SPDX-License-Identifier: Apache-2.0
// Ends source-NATed flows whose address this node no longer has: their replies do not come here any more. The
// next packet of the client opens a flow from another address: TCP's backend resets it, UDP goes on, as with
// the kernel's MASQUERADE.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "agent/netlink/route_lookup.hpp"
#include "agent/tables/flow_sweep.hpp"
#include "k8s/objects/model.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

class LostSources {
 public:
  using Clock = std::chrono::steady_clock;
  /// A restart of the network's configuration takes addresses away and gives them back.
  static constexpr std::chrono::milliseconds default_patience{3000};

  /// The tables must outlive this. `ended` is called with the number of entries that a walk erased.
  LostSources(boost::asio::io_context& context, maps::MapSet& maps,
              std::function<void(std::size_t entries)> ended,
              std::chrono::milliseconds patience = default_patience);

  /// `own`: all addresses of this node's devices now. Flows from an address that is no longer among them end,
  /// unless it returns in time, or the node has it by a local route. The first call also ends flows from
  /// addresses that the node lost while no agent ran.
  void follow(const std::vector<k8s::Address>& own);

 private:
  void await_next();
  void look();
  void sweep();

  boost::asio::steady_timer timer_;
  std::chrono::milliseconds patience_;
  FlowSweep sweep_;
  RouteLookup routes_;
  std::optional<std::set<k8s::Address>> own_;
  std::map<k8s::Address, Clock::time_point> lost_;  ///< until when each may return
};

}  // namespace lb::agent
