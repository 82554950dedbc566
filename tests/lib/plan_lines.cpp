// SPDX-License-Identifier: Apache-2.0
// Formats plans as the canonical lines of tests/lib/map_lines.hpp.
#include "tests/lib/plan_lines.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "agent/base/yes_no.hpp"
#include "agent/plan/weight_slots.hpp"
#include "maps/text.hpp"
#include "tests/lib/map_lines.hpp"

namespace lb::test {
namespace {

using agent::yes_if;

lb_name name_of(const agent::ServicePortKey& key) {
  lb_name name{};
  std::copy_n(key.name.begin(), std::min(key.name.size(), sizeof(name.service) - 1),
              std::begin(name.service));
  name.protocol = key.protocol;
  name.family = key.family;
  return name;
}

lb_service service_of(const agent::ServicePortPlan& plan) {
  lb_service service{};
  service.cluster.count = static_cast<__u32>(agent::WeightSlots(plan.backends, LB_CLUSTER).all());
  service.local.count = static_cast<__u32>(agent::WeightSlots(plan.backends, LB_LOCAL).all());
  service.policy = plan.policy;
  service.affinity_seconds = plan.affinity_seconds;
  return service;
}

lb_backend backend_of(const agent::BackendPlan& plan) {
  lb_backend backend{};
  std::copy(plan.address.bytes.begin(), plan.address.bytes.end(), std::begin(backend.address));
  backend.port = plan.port;
  backend.locality = plan.locality;
  backend.in_cluster = yes_if(plan.in_cluster);
  backend.in_local = yes_if(plan.in_local);
  backend.serving = yes_if(plan.serving);
  backend.weight = plan.weight;
  return backend;
}

std::string frontend_line(const agent::FrontendPlan& plan, const agent::ServicePortKey& key) {
  lb_frontend_key place{};
  std::copy(plan.address.bytes.begin(), plan.address.bytes.end(), std::begin(place.address));
  place.port = plan.port;
  place.protocol = key.protocol;
  lb_frontend frontend{};
  frontend.kind = plan.kind;
  return test::frontend_line(place, frontend, key.name);
}

}  // namespace

std::vector<std::string> plan_lines(const agent::ServicePortPlan& plan) {
  std::vector<std::string> lines;
  lines.reserve(plan.frontends.size() + 1 + plan.source_ranges.size() + plan.backends.size());
  for (const auto& frontend : plan.frontends) {
    lines.push_back(frontend_line(frontend, plan.key));
  }
  const lb_name name = name_of(plan.key);
  lines.push_back(test::service_line(name, service_of(plan)));
  for (const auto& range : plan.source_ranges) {
    lines.push_back(
        fmt::format("range {} {} {}", plan.key.name, maps::word(plan.key.protocol), range.text()));
  }
  for (const auto& backend : plan.backends) {
    lines.push_back(test::backend_line(name, backend_of(backend)));
  }
  return lines;
}

}  // namespace lb::test
