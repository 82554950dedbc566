// The state of one service port in the maps, as this agent knows it. Plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "agent/plan/plan.hpp"
#include "agent/tables/table_keys.hpp"
#include "maps/arena.hpp"

namespace lb::agent {

/// Backends in the sets of a service port, however many slots they have.
struct BackendCounts {
  std::uint32_t cluster = 0;
  std::uint32_t local = 0;
};

/// One service number and what it has in the kernel.
struct ServiceState {
  ServicePortKey key;
  std::uint32_t number = 0;
  std::vector<std::uint32_t> ids;               ///< of its backends, in the order of the plan
  std::shared_ptr<const ServicePortPlan> plan;  ///< as this agent published it last; null: another agent did
  maps::Extent cluster;
  maps::Extent local;
  BackendCounts counts;    ///< since this agent published it
  FrontendKeys frontends;  ///< those that may point to this number
  Ranges ranges;           ///< those that may be there
  bool is_whole = false;   ///< all of `plan` was written, frontends and ranges, too
};

}  // namespace lb::agent
