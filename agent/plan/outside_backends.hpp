// Iterates over the backends on other nodes that clients outside may get, of all services, in parts between
// which plans may change. Pure.
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

/// May a client outside get a backend on another node by this plan? Not where it has ClusterIPs alone, which
/// sockets are served at, nor where its external traffic stays on the node.
[[nodiscard]] bool sends_outside_clients_on(const ServicePortPlan& plan);

class OutsideBackends {
 public:
  /// The plans of the first service after a name; nothing: there is none.
  using NextPlans = std::function<std::optional<PlanChange>(const std::string& after)>;
  explicit OutsideBackends(NextPlans next_plans) : next_plans_(std::move(next_plans)) {}

  struct Backend {
    std::string service;  ///< "namespace/name"
    k8s::Address address;
    auto operator<=>(const Backend&) const = default;
  };
  /// Each address of a service once. Nothing: the budget is over, or is_at_end().
  [[nodiscard]] std::optional<Backend> next(WorkBudget& budget);
  [[nodiscard]] bool is_at_end() const noexcept { return is_at_end_; }

 private:
  void take_next_service(WorkBudget& budget);
  [[nodiscard]] bool take_next_port();

  NextPlans next_plans_;
  PlanChange plans_;                             ///< of the service that it is at
  std::size_t ports_ = 0;                        ///< of it that were begun
  std::shared_ptr<const ServicePortPlan> port_;  ///< null: the next one is to be begun
  BackendList::Iterator at_;                     ///< in that port
  std::set<k8s::Address> seen_;                  ///< of the service
  bool is_at_end_ = false;
};

}  // namespace lb::agent
