// SPDX-License-Identifier: Apache-2.0
#include "agent/run/snapshot_reader.hpp"

#include <chrono>
#include <tuple>

namespace lb::agent {

Snapshot read_snapshot(const SnapshotParts& parts) {
  auto& flows = parts.maps.flow_counter;
  Snapshot snapshot;
  snapshot.fills = parts.tables.fills();
  snapshot.fills.insert(snapshot.fills.end(), flows.last().begin(), flows.last().end());
  if (const auto counted = flows.counted()) {
    snapshot.flows_age = std::chrono::steady_clock::now() - *counted;
  }
  flows.refresh();
  snapshot.extents = parts.tables.extents();
  snapshot.objects = parts.cluster.counts();
  std::tie(snapshot.services, snapshot.services_left_out) =
      parts.tables.services(parts.options.service_metrics);
  snapshot.api = parts.inputs.stats();
  snapshot.frames_lost = parts.datapath.frames_lost();
  for (const auto& [device, backends] : parts.backend_routes.found()) {
    snapshot.unserved_backends.emplace(device, backends.count);
  }
  if (const auto stats = parts.maps.set.stats()) {
    snapshot.outcomes = *stats;
  }
  return snapshot;
}

}  // namespace lb::agent
