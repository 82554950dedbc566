// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/outside_backends.hpp"

#include <algorithm>
#include <utility>

namespace lb::agent {
namespace {

constexpr std::uint64_t units_of_service = 4;

BackendPlace place_of(const BackendPlan& backend) {
  return backend.locality == LB_SAME_NODE ? BackendPlace::this_node : BackendPlace::elsewhere;
}

bool is_in_set(const BackendPlan& backend, lb_scope scope) {
  return scope == LB_LOCAL ? backend.in_local : backend.in_cluster;
}

}  // namespace

bool has_external_clients(const ServicePortPlan& plan) {
  const auto is_outside = [](const auto& frontend) { return frontend.kind != LB_CLUSTER_IP; };
  return std::ranges::any_of(plan.frontends, is_outside);
}

std::optional<OutsideBackends::Backend> OutsideBackends::next(WorkBudget& budget) {
  while (!is_at_end_ && !budget.is_over()) {
    if (!port_ && !take_next_port()) {
      take_next_service(budget);
      continue;
    }
    if (at_ == port_->backends.end()) {
      port_.reset();
      continue;
    }
    budget.spend(1);
    const auto& backend = *at_++;
    if (is_in_set(backend, port_->policy.external) && seen_.insert(backend.address).second) {
      return Backend{plans_.service, backend.address, place_of(backend)};
    }
  }
  return std::nullopt;
}

void OutsideBackends::take_next_service(WorkBudget& budget) {
  budget.spend(units_of_service);
  auto plans = next_plans_(plans_.service);
  is_at_end_ = !plans;
  plans_ = std::move(plans).value_or(PlanChange{});
  ports_ = 0;
  seen_.clear();
}

bool OutsideBackends::take_next_port() {
  while (ports_ < plans_.ports.size()) {
    const auto& port = plans_.ports[ports_++];
    if (has_external_clients(*port)) {
      port_ = port;
      at_ = port->backends.begin();
      return true;
    }
  }
  return false;
}

}  // namespace lb::agent
