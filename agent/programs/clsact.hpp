// SPDX-License-Identifier: Apache-2.0
// tc programs without links, for kernels before TCX: filters of the clsact qdisc, which stay attached while
// no agent runs. They have no pins: their handles identify the owner (agent/netlink/filters.hpp), so several
// Sluices do not change each other's. All have one priority, in which a later filter runs before earlier
// ones.
#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>
#include <cstdint>

#include "agent/netlink/filters.hpp"
#include "agent/programs/filter_owner.hpp"
#include "agent/programs/links.hpp"

namespace lb::agent {

/// Whether the clsact qdisc existed, or we created it.
enum class Qdisc : std::uint8_t { found, made };

/// Ensures that the device has the qdisc. Errors are errno values.
[[nodiscard]] boost::system::result<Qdisc> ensure_qdisc(int device);

/// Removes the qdisc if it has no filters. A missing qdisc is not an error.
void remove_empty_qdisc(int device);

/// Makes our filter on one side of a device run `program`, first at ingress and last at egress. The filter
/// uses one of a few handles, so filters of others are not changed; EEXIST: others have taken all of them.
/// Other errors are errno values. The qdisc must exist.
[[nodiscard]] boost::system::result<AttachResult> ensure_clsact(const FilterOwner& owner, int device,
                                                                TcSide side, int program);

/// Removes our filter, and no other. A missing filter is not an error.
void remove_clsact(const FilterOwner& owner, int device, TcSide side);

/// Whether a filter runs that program.
[[nodiscard]] bool runs_clsact(int device, TcSide side, std::uint32_t program);

enum class ClsactPart : std::uint8_t { qdisc, filter };

/// The kernel's error, and whether it is about the qdisc or the filter.
struct ClsactProbe {
  boost::system::error_code error;
  ClsactPart part = ClsactPart::qdisc;
};

/// Tests whether this kernel supports clsact: attaches `program` to the loopback device of a temporary
/// network namespace. EPERM: unknown, because this process may not create a namespace.
[[nodiscard]] ClsactProbe probe_clsact(int program);

/// Whether we have a filter there.
[[nodiscard]] bool has_clsact(const FilterOwner& owner, int device, TcSide side);

}  // namespace lb::agent
