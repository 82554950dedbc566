// How long this node was without an agent, while the pinned programs served with ever older tables.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace lb::agent {

/// Longer than any restart or upgrade of a pod takes.
inline constexpr std::chrono::seconds noteworthy_absence{60};

/// A sentence for log and Event; nothing where no agent was here before (no heartbeat), or it was here just
/// now.
[[nodiscard]] std::optional<std::string> absence_text(
    std::optional<std::chrono::system_clock::time_point> last_heartbeat,
    std::chrono::system_clock::time_point now);

}  // namespace lb::agent
