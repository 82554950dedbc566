// SPDX-License-Identifier: Apache-2.0
// `sluice alive`: a container's probe for cases in which another process may hold the health port; also for
// monitoring, as a file that node_exporter's textfile collector reads even while no agent responds.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "agent/datapath/lock.hpp"
#include "agent/options/config.hpp"

namespace lb::agent {

/// Returns 0 if an agent holds the lock of these pins and has a recent heartbeat; else prints the reason and
/// returns 1. With a textfile: returns 0 once it is written. Throws StartError if it cannot be written, or
/// the pins cannot be read.
[[nodiscard]] int run_alive(const AliveOptions& options);

/// The result in Prometheus' text format. Pure.
[[nodiscard]] std::string alive_metrics(std::string_view pins, const AgentPresence& agent,
                                        std::chrono::system_clock::time_point now);

}  // namespace lb::agent
