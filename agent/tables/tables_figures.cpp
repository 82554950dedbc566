// What a scrape is told of the tables.
#include <algorithm>
#include <map>
#include <utility>

#include "agent/tables/tables.hpp"

namespace lb::agent {
namespace {

using AllFigures = std::map<ServicePortKey, ServiceFigures>;

bool names_local(const lb_policy& policy) {
  return policy.internal == LB_LOCAL || policy.external == LB_LOCAL;
}

/// What the maps have.
void add_figures(AllFigures& all, const ServiceState& state, const lb_policy& policy) {
  auto& figures = all[state.key];
  figures.key = state.key;
  figures.cluster = {.eligible = state.counts.cluster, .programmed = state.counts.cluster};
  if (names_local(policy)) {
    figures.local = {.eligible = state.counts.local, .programmed = state.counts.local};
  }
}

/// What they shall have.
void add_figures(AllFigures& all, const ServicePortPlan& plan) {
  const auto counts = count_backends(plan);
  auto& figures = all[plan.key];
  figures.key = plan.key;
  figures.cluster.eligible = counts.cluster;
  if (names_local(plan.policy)) {
    figures.local = {.eligible = counts.local, .programmed = figures.local ? figures.local->programmed : 0};
  }
}

}  // namespace

std::vector<Fill> Tables::fills() const {
  const auto used = [](const auto& pool) { return std::uint64_t{pool.limit()} - pool.available(); };
  return {{.map = "lb_frontends", .used = frontends_.held().size(), .limit = frontends_.limit()},
          {.map = "lb_services",
           .used = used(reclaimer_.service_pool()) - 1,
           .limit = reclaimer_.service_pool().limit() - 1U,
           .retired = reclaimer_.retired_services()},
          {.map = "lb_backends",
           .used = used(reclaimer_.backend_pool()) - 1,
           .limit = reclaimer_.backend_pool().limit() - 1U,
           .retired = reclaimer_.retired_backends()},
          {.map = "lb_slots",
           .used = used(reclaimer_.slot_arena()),
           .limit = reclaimer_.slot_arena().limit(),
           .retired = reclaimer_.retired_slots()},
          {.map = "lb_ranges", .used = ranges_.held().size(), .limit = ranges_.limit()},
          {.map = "lb_addresses", .used = addresses_.held().size(), .limit = addresses_.limit()}};
}

ExtentFigures Tables::extents() const {
  ExtentFigures figures{.longest_free = reclaimer_.slot_arena().largest()};
  for (const auto& [service, ports] : services_) {
    for (const auto& [key, port] : ports) {
      figures.used += (port->cluster.count > 0 ? 1U : 0U) + (port->local.count > 0 ? 1U : 0U);
    }
  }
  return figures;
}

// Ports that could not be written have a plan and perhaps no state; all others have what they were planned.
std::pair<std::vector<ServiceFigures>, std::uint64_t> Tables::services(std::size_t most) const {
  if (most == 0) return {};
  AllFigures all;
  for (const auto& [service, ports] : services_) {
    for (const auto& [key, port] : ports) add_figures(all, *port, store_.services.load(port->number).policy);
  }
  for (const auto& [service, pending] : pending_) {
    for (const auto& port : pending.change.ports) add_figures(all, *port);
  }
  std::vector<ServiceFigures> first;
  for (auto& [key, figures] : all) {
    if (first.size() == most) break;
    first.push_back(std::move(figures));
  }
  const auto left_out = all.size() - first.size();
  return {std::move(first), left_out};
}

}  // namespace lb::agent
