// SPDX-License-Identifier: Apache-2.0
// A PlanSink that records what the maps would hold, and detects changes without effect.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/plan/plan.hpp"
#include "tests/lib/plan_lines.hpp"

namespace lb::test {

class Record final : public agent::PlanSink {
 public:
  void apply(agent::Batch batch, std::vector<agent::PlanChange> changes) override {
    batches.push_back(batch);
    bool some_present = false;
    for (auto& change : changes) {
      some_present = some_present || !change.ports.empty();
      if (some_present && change.ports.empty()) {
        ++late_deletes;
      }
      if (is_empty(change)) {
        ++empty_changes;
      }
      services.erase(change.service);
      if (!change.ports.empty()) {
        services.emplace(change.service, change.ports);
      }
    }
    last = std::move(changes);
  }

  [[nodiscard]] std::map<std::string, std::vector<std::string>> lines_by_service() const {
    std::map<std::string, std::vector<std::string>> all;
    for (const auto& [service, ports] : services) {
      for (const auto& port : ports) {
        for (auto& line : test::plan_lines(*port)) {
          all[service].push_back(std::move(line));
        }
      }
    }
    return all;
  }

  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> all;
    for (auto& [service, lines] : lines_by_service()) {
      all.insert(all.end(), lines.begin(), lines.end());
    }
    return all;
  }

  std::map<std::string, agent::ServicePlans> services;
  std::vector<agent::PlanChange> last;
  std::vector<agent::Batch> batches;
  int empty_changes = 0;  ///< changes equal to the recorded state (SEM-87)
  int late_deletes = 0;   ///< deleted services reported after one that was not deleted (REL-35)

 private:
  [[nodiscard]] bool is_empty(const agent::PlanChange& change) const {
    const auto known = services.find(change.service);
    if (known == services.end()) {
      return change.ports.empty();
    }
    if (known->second.size() != change.ports.size()) {
      return false;
    }
    for (std::size_t i = 0; i < change.ports.size(); ++i) {
      if (!(*known->second[i] == *change.ports[i])) {
        return false;
      }
    }
    return true;
  }
};

}  // namespace lb::test
