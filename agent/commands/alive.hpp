// `sluice alive`: what a container's probe runs where another process may hold the health port; and the same
// for monitoring, as a file that node_exporter's textfile collector reads while no agent answers.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "agent/datapath/lock.hpp"
#include "agent/options/config.hpp"

namespace lb::agent {

/// 0 while an agent holds these pins and has lately looked after them; else prints why not, and 1. With a
/// textfile: 0 once that is written. Throws StartError where it cannot be, or the pins cannot be read.
[[nodiscard]] int run_alive(const AliveOptions& options);

/// The answer in Prometheus' text format. Pure.
[[nodiscard]] std::string alive_metrics(std::string_view pins, const AgentPresence& agent,
                                        std::chrono::system_clock::time_point now);

}  // namespace lb::agent
