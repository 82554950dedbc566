// SPDX-License-Identifier: Apache-2.0
// What it costs to write a plan over another one, and the way there in parts. Pure: writes are counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "agent/options/config.hpp"
#include "agent/plan/plan.hpp"

namespace lb::agent {

/// The cost to write `want` over `have`: one unit is about one system call, or 2 µs. Backends, which are
/// stores into mapped memory, cost a sixteenth if added or changed, and half if removed; the slots of a set
/// that changes are written again, and a table of consistent selection with `consistent_slots` slots costs
/// more. Stops counting at `enough`.
[[nodiscard]] std::size_t writes_between(const ServicePlans& have, const ServicePlans& want,
                                         std::size_t enough = std::numeric_limits<std::size_t>::max(),
                                         std::uint32_t consistent_slots = Sizes{}.consistent_slots);

/// The next plans to write on the way from `have` to `want`, with about `writes` writes: `want` itself if
/// that suffices, else intermediate plans, each of them valid. An intermediate plan allows every client that
/// both plans allow, and rejects every client that both reject: source ranges are added before the frontends
/// that they allow, and removed after them. One service port's backends are added and removed in parts, in
/// their order, and no set is empty in between unless it is in one of the two; backends of consistent
/// selection, whose tables are rebuilt each time, are written as a whole, but not those of several ports
/// at once if they are many. A frontend that passes to another service port of the service stays until that
/// one has it.
///
/// No service has more than `max_entries` frontends, or source ranges, on its way, unless one of the two
/// plans has: of further ones those that `want` lacks are removed first. A client whose range is then
/// replaced by another one may be rejected in between. At least four writes always make progress.
[[nodiscard]] ServicePlans part_towards(const ServicePlans& have, const ServicePlans& want,
                                        std::size_t writes,
                                        std::uint32_t consistent_slots = Sizes{}.consistent_slots,
                                        std::size_t max_entries = default_service_frontends);

}  // namespace lb::agent
