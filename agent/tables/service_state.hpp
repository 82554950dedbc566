// SPDX-License-Identifier: Apache-2.0
// This agent's knowledge of one service port's state in the maps. Plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "agent/plan/plan.hpp"
#include "agent/tables/table_keys.hpp"
#include "maps/arena.hpp"

namespace lb::agent {

/// Numbers of backends in the sets of a service port, however many slots they have.
struct BackendCounts {
  std::uint32_t cluster = 0;
  std::uint32_t local = 0;
};

/// One service number and its entries in the maps.
struct ServiceState {
  ServicePortKey key;
  std::uint32_t number = 0;
  std::vector<std::uint32_t> ids;               ///< ids of the backends, in the plan's order
  std::shared_ptr<const ServicePortPlan> plan;  ///< as this agent published it; null: another agent did
  maps::Extent cluster;
  maps::Extent local;
  std::uint64_t cluster_sum = 0;  ///< with consistent selection: of the set's slots as written
  std::uint64_t local_sum = 0;
  BackendCounts counts;    ///< valid once this agent published it
  FrontendKeys frontends;  ///< frontends that may point to this number
  Ranges ranges;           ///< ranges that may be in the map
  bool is_whole = false;   ///< all of `plan` is written, including frontends and ranges
};

}  // namespace lb::agent
