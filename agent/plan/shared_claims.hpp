// SPDX-License-Identifier: Apache-2.0
// What all Services claim of what only some can have: frontends, and tables of consistent selection. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/plan/consistent_budget.hpp"
#include "agent/plan/frontends.hpp"
#include "agent/plan/service_model.hpp"

namespace lb::agent {

/// Both are asked with the same spec of a Service, so that a plan never has one of them without the other.
class SharedClaims {
 public:
  explicit SharedClaims(std::size_t consistent_tables) : consistent_(consistent_tables) {}

  /// Claims for the Service's present object. Returns the other Services that gained or lost something; they
  /// may be gone. nullopt: the budget ended, and the next call continues.
  [[nodiscard]] std::optional<std::set<std::string>> claim(const std::string& service, ServiceModel& model,
                                                           const NodeView& node, const PlanOptions& options,
                                                           WorkBudget& work) {
    auto others = model.spec(node, options, frontends_, work);
    if (others) {
      others->merge(consistent_.ask(service, model.created(), model.consistent_tables(), work));
    }
    return others;
  }

  [[nodiscard]] Frontends& frontends() noexcept { return frontends_; }
  [[nodiscard]] const Frontends& frontends() const noexcept { return frontends_; }
  [[nodiscard]] std::size_t granted_ports(const std::string& service) const {
    return consistent_.granted(service);
  }

 private:
  Frontends frontends_;
  ConsistentBudget consistent_;
};

}  // namespace lb::agent
