// SPDX-License-Identifier: Apache-2.0
// Collects the values of a scrape from their owners, on request.
#pragma once

#include "agent/datapath/backend_routes.hpp"
#include "agent/datapath/datapath.hpp"
#include "agent/datapath/open_maps.hpp"
#include "agent/options/config.hpp"
#include "agent/plan/cluster.hpp"
#include "agent/run/inputs.hpp"
#include "agent/tables/snapshot.hpp"
#include "agent/tables/tables.hpp"

namespace lb::agent {

/// All must outlive the call.
struct SnapshotParts {
  const AgentOptions& options;
  const Inputs& inputs;
  const Cluster& cluster;
  const Datapath& datapath;
  const Tables& tables;
  OpenMaps& maps;
  const BackendRoutes& backend_routes;
};

/// The flow counts are those of the last count; this starts the next one. Flows are too many to be counted
/// here.
[[nodiscard]] Snapshot read_snapshot(const SnapshotParts& parts);

}  // namespace lb::agent
