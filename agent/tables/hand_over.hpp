// Our flows in the form of conntrack's entries, and the walk that creates these: from then on conntrack
// translates their packets just as we did, as long as some nat chain exists (REL-84).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "agent/netlink/tracked.hpp"
#include "maps/map.hpp"

namespace lb::agent {

/// What conntrack shall track in the place of the flow whose requests' entry this is. Nothing for answers'
/// entries, for SCTP, and for what the stack forwards and a second flow gives a source (--forwarding=stack).
[[nodiscard]] std::optional<Tracked> tracked_of(const lb_flow4_key& key, const lb_flow4& flow);
[[nodiscard]] std::optional<Tracked> tracked_of(const lb_flow6_key& key, const lb_flow6& flow);

/// Why a flow stays ours.
enum class RemainReason : std::uint8_t { handshake, sctp, forwarded, refused, no_successor };
inline constexpr std::size_t left_reasons = 5;
/// For people: "a handshake is under way".
[[nodiscard]] std::string_view reason_text(RemainReason reason);

struct LeftFlows {
  std::size_t count = 0;
  std::vector<TrackedTuple> examples;  ///< requests of a few of them
};

struct HandOverCount {
  std::size_t handed = 0;                    ///< flows that are conntrack's now
  std::array<LeftFlows, left_reasons> left;  ///< flows that need us still, by RemainReason
  boost::system::error_code refusal;         ///< the kernel's last one; none: it refused nothing

  void leave(RemainReason reason, const TrackedTuple& requests);
  [[nodiscard]] std::size_t all_left() const;
};

/// May flows be handed over, or do all stay to their end?
enum class HandOver : std::uint8_t { allowed, forbidden };

/// The flow tables of both families.
struct DrainedTables {
  maps::HashMap<lb_flow4_key, lb_flow4>& flows4;
  maps::HashMap<lb_flow6_key, lb_flow6>& flows6;
  maps::HashMap<lb_flow4_key, lb_flow4>& unassured4;
  maps::HashMap<lb_flow6_key, lb_flow6>& unassured6;
};

/// Looks at all flows once. Programs must open no more of them. `now`: seconds of lb_clock.
[[nodiscard]] maps::result<HandOverCount> hand_over(const DrainedTables& tables, ConntrackTable& conntrack,
                                                    HandOver handing, std::uint32_t now);

}  // namespace lb::agent
