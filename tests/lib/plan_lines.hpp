// Formats plans as the canonical lines of tests/lib/map_lines.hpp, as if they had been read back from the
// maps.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "agent/plan/plan.hpp"

namespace lb::test {

/// The number of slots of a set with these weights: their sum after division by their common factor; 0 takes
/// none.
[[nodiscard]] std::uint32_t slot_count(std::span<const std::uint8_t> weights);

/// The frontends, the service, the source ranges and the backends of one service port, one line each.
[[nodiscard]] std::vector<std::string> plan_lines(const agent::ServicePortPlan& plan);

}  // namespace lb::test
