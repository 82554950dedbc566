// SPDX-License-Identifier: Apache-2.0
// The services that an agent with these options would serve now: uses its own source and planning, without
// maps or programs.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/options/config.hpp"
#include "agent/plan/cluster.hpp"
#include "agent/run/inputs.hpp"

namespace lb::agent {

class PlannedServices final : private PlanSink {
 public:
  /// Throws StartError if the source cannot be read at all; `options` must outlive this.
  explicit PlannedServices(const AgentOptions& options);

  /// Returns once everything is planned; after `timeout` throws StartError with what is missing.
  void await(std::chrono::milliseconds timeout);
  /// Processes the source's reports for this time.
  void follow(std::chrono::milliseconds time);

  /// The planned services by "namespace/name".
  [[nodiscard]] const std::map<std::string, ServicePlans>& services() const noexcept { return services_; }
  /// "the API at https://10.0.0.1:6443"
  [[nodiscard]] const std::string& source() const { return inputs_.text(); }
  /// Skipped parts of objects, with reasons; one line each.
  [[nodiscard]] const std::set<std::string>& complaints() const noexcept { return complaints_; }

 private:
  void apply(Batch batch, std::vector<PlanChange> changes) override;
  void complain(const k8s::Complaint& complaint);
  [[nodiscard]] bool is_whole() const { return planned_ && !cluster_.waits(); }

  boost::asio::io_context context_{1};
  Inputs inputs_;
  std::map<std::string, ServicePlans> services_;
  std::set<std::string> complaints_;
  std::string last_complaint_;
  bool planned_ = false;
  Cluster cluster_;
};

}  // namespace lb::agent
