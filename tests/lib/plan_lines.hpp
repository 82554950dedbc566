// SPDX-License-Identifier: Apache-2.0
// Formats plans as the canonical lines of tests/lib/map_lines.hpp, as if they had been read back from the
// maps.
#pragma once

#include <string>
#include <vector>

#include "agent/plan/plan.hpp"

namespace lb::test {

/// The frontends, the service, the source ranges and the backends of one service port, one line each.
[[nodiscard]] std::vector<std::string> plan_lines(const agent::ServicePortPlan& plan);

}  // namespace lb::test
