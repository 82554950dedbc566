// SPDX-License-Identifier: Apache-2.0
// Ends redirected flows from and to addresses that IPsec policies cover, because their packets bypass all
// policies. The next packet of such a flow is decided anew.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <vector>

#include "agent/tables/flow_sweep.hpp"
#include "k8s/objects/model.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

class RedirectedFlows {
 public:
  /// The tables must outlive this. `ended` is called with the number of entries that a walk erased.
  RedirectedFlows(boost::asio::io_context& context, maps::MapSet& maps,
                  std::function<void(std::size_t entries)> ended);

  /// Walks all flow tables from the start, in steps. Programs must refuse new such flows before.
  void end(std::vector<k8s::Prefix> towards);

 private:
  FlowSweep sweep_;
};

}  // namespace lb::agent
