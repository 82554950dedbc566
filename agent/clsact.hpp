// tc programs without links, for kernels before TCX: filters of the clsact qdisc, which stay while no agent
// runs.
#pragma once

#include <boost/system/result.hpp>
#include <cstdint>

#include "agent/links.hpp"

namespace lb::agent {

enum class TcSide : std::uint8_t { ingress, egress };

/// Makes our filter on one side of a device run `program`, first at ingress and last at egress. A filter of
/// somebody else in our place is left alone: EEXIST. Other errors are errno values.
[[nodiscard]] boost::system::result<Held> ensure_clsact(int device, TcSide side, int program);

/// Takes our filter away, and nobody else's. Nothing there is fine.
void remove_clsact(int device, TcSide side);

/// Does the filter in our place run that program?
[[nodiscard]] bool runs_clsact(int device, TcSide side, std::uint32_t program);

/// Is a filter of ours there?
[[nodiscard]] bool has_clsact(int device, TcSide side);

}  // namespace lb::agent
