// SPDX-License-Identifier: Apache-2.0
// Formats one canonical line per map entry.
#include "tests/lib/map_lines.hpp"

#include <fmt/format.h>

#include "maps/text.hpp"

namespace lb::test {

std::string frontend_line(const lb_frontend_key& key, const lb_frontend& frontend, std::string_view service) {
  return fmt::format("frontend {}/{} {} {}", maps::socket_text(key.address, key.port),
                     maps::word(key.protocol), maps::word(frontend.kind), service);
}

std::string service_line(const lb_name& name, const lb_service& service) {
  const lb_policy& policy = service.policy;
  auto line = fmt::format("service {} {} {} cluster={} local={} internal={} external={} empty={}/{}",
                          maps::stored_text(name.service), maps::word(name.protocol), maps::word(name.family),
                          service.cluster.count, service.local.count, maps::word(policy.internal),
                          maps::word(policy.external), maps::word(policy.cluster_empty),
                          maps::word(policy.local_empty));
  if (service.affinity_seconds != 0) {
    line += fmt::format(" affinity={}s", service.affinity_seconds);
  }
  if (policy.source_ranges == LB_YES) {
    line += " source-ranges";
  }
  if (policy.packet_path == LB_YES) {
    line += " packet-path";
  }
  if (policy.selection == LB_CONSISTENT) {
    line += " consistent";
  }
  return line;
}

std::string backend_line(const lb_name& name, const lb_backend& backend) {
  auto line = fmt::format("backend {} {} {} {}", maps::stored_text(name.service), maps::word(name.protocol),
                          maps::socket_text(backend.address, backend.port), maps::word(backend.locality));
  if (backend.in_cluster == LB_YES) {
    line += " cluster";
  }
  if (backend.in_local == LB_YES) {
    line += " local";
  }
  if (backend.serving == LB_YES) {
    line += " serving";
  }
  if (backend.weight != 1) {
    line += fmt::format(" weight={}", backend.weight);
  }
  return line;
}

}  // namespace lb::test
