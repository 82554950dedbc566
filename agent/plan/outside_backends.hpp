// SPDX-License-Identifier: Apache-2.0
// Iterates over the backends that external clients may get, for all services, in parts between which plans
// may change. Pure.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/plan/plan.hpp"
#include "agent/plan/work_budget.hpp"

namespace lb::agent {

/// Whether this plan may give an external client a backend. False if it has only ClusterIPs, which the socket
/// hooks serve.
[[nodiscard]] bool has_external_clients(const ServicePortPlan& plan);

enum class BackendPlace : std::uint8_t { elsewhere, this_node };

class OutsideBackends {
 public:
  /// Returns the plans of the first service after a name; nullopt if there is none.
  using NextPlans = std::function<std::optional<PlanChange>(const std::string& after)>;
  explicit OutsideBackends(NextPlans next_plans) : next_plans_(std::move(next_plans)) {}

  struct Backend {
    std::string service;  ///< "namespace/name"
    k8s::Address address;
    BackendPlace place = BackendPlace::elsewhere;
    auto operator<=>(const Backend&) const = default;
  };
  /// Returns each address of a service once; none on another node that only the external traffic policy Local
  /// could choose. nullopt if the budget is used up, or is_at_end().
  [[nodiscard]] std::optional<Backend> next(WorkBudget& budget);
  [[nodiscard]] bool is_at_end() const noexcept { return is_at_end_; }

 private:
  void take_next_service(WorkBudget& budget);
  [[nodiscard]] bool take_next_port();

  NextPlans next_plans_;
  PlanChange plans_;                             ///< of the current service
  std::size_t ports_ = 0;                        ///< number of its ports begun
  std::shared_ptr<const ServicePortPlan> port_;  ///< null: begin the next one
  BackendList::Iterator at_;                     ///< position in that port
  std::set<k8s::Address> seen_;                  ///< addresses of the service
  bool is_at_end_ = false;
};

}  // namespace lb::agent
