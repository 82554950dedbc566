// SPDX-License-Identifier: Apache-2.0
#include "agent/run/absence.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace lb::agent {

std::optional<std::string> absence_text(std::optional<std::chrono::system_clock::time_point> last_heartbeat,
                                        std::chrono::system_clock::time_point now) {
  if (!last_heartbeat || now - *last_heartbeat < noteworthy_absence) {
    return std::nullopt;
  }
  const auto since = std::chrono::system_clock::to_time_t(*last_heartbeat);
  return fmt::format(
      "no agent ran here for {} s, since {:%Y-%m-%dT%H:%M:%SZ}: the programs served what the maps held then",
      std::chrono::duration_cast<std::chrono::seconds>(now - *last_heartbeat).count(), fmt::gmtime(since));
}

}  // namespace lb::agent
