// SPDX-License-Identifier: Apache-2.0
// How long this node was without an agent, while the pinned programs served with outdated tables.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace lb::agent {

/// An absence longer than a restart or upgrade of a pod.
inline constexpr std::chrono::seconds noteworthy_absence{60};

/// A message for log and Event; nullopt if there was no agent here before (no heartbeat), or only a short
/// absence.
[[nodiscard]] std::optional<std::string> absence_text(
    std::optional<std::chrono::system_clock::time_point> last_heartbeat,
    std::chrono::system_clock::time_point now);

}  // namespace lb::agent
