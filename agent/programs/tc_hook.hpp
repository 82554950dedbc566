// SPDX-License-Identifier: Apache-2.0
// Attaches a tc program to one side of a device, by a TCX link or by a clsact filter.
#pragma once

#include <linux/bpf.h>

#include <boost/system/result.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "agent/programs/clsact.hpp"
#include "agent/programs/links.hpp"

namespace lb::agent {

enum class TcAttachment : std::uint8_t { tcx, clsact };

/// Whether a filter was removed, or one of ours replaced, since the last check. A check of filters costs five
/// system calls, and the kernel sends notifications of changes.
enum class FilterChanges : std::uint8_t { none, some };

struct TcHook {
  TcAttachment by = TcAttachment::tcx;
  TcSide side = TcSide::ingress;
  std::uint32_t device = 0;  ///< interface index
  std::string pin;           ///< pin name of its link; unused by filters
};

[[nodiscard]] const char* name_of(TcAttachment by);

/// Attaches the program to run first at ingress, last at egress. Errors are errno values. With `left_out`,
/// keeps an earlier program (its id is 0 if unknown).
[[nodiscard]] boost::system::result<AttachResult> ensure_tc(Links& links, const TcHook& hook, int program);

/// Whether that program is still attached there. True if unknown, because the device was removed.
[[nodiscard]] bool runs_tc(const TcHook& hook, std::uint32_t program, FilterChanges filters);

/// Detaches the hook. It is not an error if nothing is attached.
void remove_tc(const Links& links, const TcHook& hook);

/// Removes the qdiscs that we created and that have no filters any more, and the notes of removed devices.
void release_qdiscs(const Links& links);

}  // namespace lb::agent
