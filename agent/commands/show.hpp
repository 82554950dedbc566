// SPDX-License-Identifier: Apache-2.0
// Formats the output of the commands, from values of view.hpp and snapshot.hpp. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/base/findings.hpp"
#include "agent/commands/view.hpp"
#include "agent/datapath/lock.hpp"
#include "agent/options/config.hpp"
#include "agent/programs/preemption.hpp"
#include "agent/tables/snapshot.hpp"

namespace lb::agent {

[[nodiscard]] std::string show_services(const std::vector<ServiceView>& services, Output output);
[[nodiscard]] std::string show_backends(const std::vector<ServiceView>& services, const BackendViews& list,
                                        Output output);

/// The flows to show, and the total number.
struct FlowList {
  std::vector<FlowView> flows;
  std::uint64_t all = 0;
  std::uint32_t now = 0;  ///< seconds of lb_clock; 0: unknown, so idle times are not shown
};
[[nodiscard]] std::string show_flows(const FlowList& list, const std::vector<ServiceView>& services,
                                     Output output);

/// One line, or object, for each finding, and whether the agent would start.
[[nodiscard]] std::string show_findings(const std::vector<Finding>& findings, Output output);

struct Status {
  std::string pins;
  AgentPresence agent;
  std::chrono::system_clock::time_point now;
  lb_node node{};
  std::uint32_t clock = 0;         ///< current lb_clock, to which the node page's times refer
  std::vector<std::string> links;  ///< names of pinned links, sorted
  std::string uplinks;             ///< served uplinks with reasons: "eth0 (default routes)"
  std::string others;              ///< text about other programs at our tc hooks
  std::string kernel;              ///< its release
  Preemption preemption = Preemption::none;
  Snapshot snapshot;
};
[[nodiscard]] std::string show_status(const Status& status, Output output);

}  // namespace lb::agent
