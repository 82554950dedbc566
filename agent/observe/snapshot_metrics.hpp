// SPDX-License-Identifier: Apache-2.0
// Metrics that a scrape reads: the state of tables, objects, API connections and the process.
#pragma once

#include <prometheus/metric_family.h>

#include <array>
#include <vector>

#include "agent/tables/snapshot.hpp"

namespace lb::agent {

/// Values of the label ip_family.
inline constexpr std::array<const char*, 2> family_labels = {"IPv4", "IPv6"};

[[nodiscard]] std::vector<prometheus::MetricFamily> snapshot_metrics(const Snapshot& snapshot);

}  // namespace lb::agent
