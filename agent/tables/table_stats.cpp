// SPDX-License-Identifier: Apache-2.0
// Statistics of the tables for a scrape.
#include "agent/tables/table_stats.hpp"

#include <map>
#include <optional>

namespace lb::agent {
namespace {

using AllStats = std::map<ServicePortKey, ServiceStats>;

bool names_local(const lb_policy& policy) {
  return policy.internal == LB_LOCAL || policy.external == LB_LOCAL;
}

/// Adds the backends in the maps.
void add_stats(AllStats& all, const ServiceState& state, const lb_policy& policy) {
  auto& stats = all[state.key];
  stats.key = state.key;
  stats.cluster = {.eligible = state.counts.cluster, .programmed = state.counts.cluster};
  if (names_local(policy)) {
    stats.local = {.eligible = state.counts.local, .programmed = state.counts.local};
  }
}

/// Adds the planned backends.
void add_stats(AllStats& all, const ServicePortPlan& plan) {
  const auto counts = count_backends(plan);
  auto& stats = all[plan.key];
  stats.key = plan.key;
  stats.cluster.eligible = counts.cluster;
  if (names_local(plan.policy)) {
    stats.local = {.eligible = counts.local, .programmed = stats.local ? stats.local->programmed : 0};
  }
}

}  // namespace

std::vector<Fill> fills_of(const TableSet& tables) {
  const auto used = [](const auto& pool) { return std::uint64_t{pool.limit()} - pool.available(); };
  const auto& reclaimer = tables.reclaimer;
  return {
      {.map = "lb_frontends", .used = tables.frontends.entries().size(), .limit = tables.frontends.limit()},
      {.map = "lb_services",
       .used = used(reclaimer.service_pool()) - 1,
       .limit = reclaimer.service_pool().limit() - 1U,
       .retired = reclaimer.retired_services()},
      {.map = "lb_backends",
       .used = used(reclaimer.backend_pool()) - 1,
       .limit = reclaimer.backend_pool().limit() - 1U,
       .retired = reclaimer.retired_backends()},
      {.map = "lb_slots",
       .used = used(reclaimer.slot_arena()),
       .limit = reclaimer.slot_arena().limit(),
       .retired = reclaimer.retired_slots()},
      {.map = "lb_ranges", .used = tables.ranges.entries().size(), .limit = tables.ranges.limit()},
      {.map = "lb_addresses", .used = tables.addresses.size(), .limit = tables.addresses.limit()}};
}

ExtentStats extents_of(const TableSet& tables) {
  ExtentStats stats{.longest_free = tables.reclaimer.slot_arena().largest()};
  for (const auto& [service, ports] : tables.services.all()) {
    for (const auto& [key, port] : ports) {
      stats.used += (port->cluster.count > 0 ? 1U : 0U) + (port->local.count > 0 ? 1U : 0U);
    }
  }
  return stats;
}

// Service ports that could not be written have a plan and perhaps no state; for all others the maps match the
// plan.
std::pair<std::vector<ServiceStats>, std::uint64_t> services_of(const TableSet& tables,
                                                                const RetryQueue& waiting,
                                                                std::size_t max_services) {
  if (max_services == 0) {
    return {};
  }
  AllStats all;
  for (const auto& [service, ports] : tables.services.all()) {
    for (const auto& [key, port] : ports) {
      add_stats(all, *port, tables.store.services.load(port->number).policy);
    }
  }
  waiting.for_each_port([&](const ServicePortPlan& port) { add_stats(all, port); });
  std::vector<ServiceStats> first;
  for (auto& [key, stats] : all) {
    if (first.size() == max_services) {
      break;
    }
    first.push_back(std::move(stats));
  }
  const auto left_out = all.size() - first.size();
  return {std::move(first), left_out};
}

}  // namespace lb::agent
