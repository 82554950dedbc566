// SPDX-License-Identifier: Apache-2.0
// Converts our flows to conntrack entries, and walks the tables to create these entries: from then on
// conntrack translates the flows' packets as we did, while some nat chain exists (REL-84).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "agent/netlink/tracked.hpp"
#include "agent/netlink/tuple_filter.hpp"
#include "maps/map.hpp"

namespace lb::agent {

/// The conntrack entry for the flow with this forward entry. nullopt for reply entries, for SCTP, and for
/// flows that the stack forwards and a second flow masquerades (--forwarding=stack).
[[nodiscard]] std::optional<Tracked> tracked_of(const lb_flow4_key& key, const lb_flow4& flow);
[[nodiscard]] std::optional<Tracked> tracked_of(const lb_flow6_key& key, const lb_flow6& flow);

/// Why a flow is not handed over.
enum class RemainReason : std::uint8_t { handshake, sctp, forwarded, refused, no_successor };
inline constexpr std::size_t left_reasons = 5;
/// Text for messages: "a handshake is under way".
[[nodiscard]] std::string_view reason_text(RemainReason reason);

struct LeftFlows {
  std::size_t count = 0;
  std::vector<TrackedTuple> examples;  ///< forward tuples of a few of them
};

struct HandOverCount {
  std::size_t handed = 0;                    ///< flows that conntrack translates now
  std::array<LeftFlows, left_reasons> left;  ///< flows not handed over, by RemainReason
  boost::system::error_code refusal;         ///< last error of the kernel, if any

  void leave(RemainReason reason, const TrackedTuple& requests);
  [[nodiscard]] std::size_t all_left() const;
};

/// Whether flows may be handed over, or all remain until they end.
enum class HandOver : std::uint8_t { allowed, forbidden };

/// The flow tables of both families.
struct DrainedTables {
  maps::HashMap<lb_flow4_key, lb_flow4>& flows4;
  maps::HashMap<lb_flow6_key, lb_flow6>& flows6;
  maps::HashMap<lb_flow4_key, lb_flow4>& unassured4;
  maps::HashMap<lb_flow6_key, lb_flow6>& unassured6;
};

/// Conntrack, and a filter that drops a flow's packets while both it and our programs translate them; null:
/// the kernel has none, and a packet at that moment may reset its connection.
struct HandOverTarget {
  ConntrackTable& conntrack;
  TupleFilter* filter = nullptr;
};

/// Visits all flows once. Programs must not create flows any more. `now`: seconds of lb_clock.
[[nodiscard]] maps::result<HandOverCount> hand_over(const DrainedTables& tables, const HandOverTarget& target,
                                                    HandOver handing, std::uint32_t now);

}  // namespace lb::agent
