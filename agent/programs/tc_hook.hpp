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

/// Was a filter removed, or one of ours replaced, since the last check? A check of filters costs five system
/// calls, and the kernel reports when one is added or removed.
enum class FilterChanges : std::uint8_t { none, some };

struct TcHook {
  TcAttachment by = TcAttachment::tcx;
  TcSide side = TcSide::ingress;
  std::uint32_t device = 0;  ///< interface index
  std::string pin;           ///< of its link; unused by filters
};

[[nodiscard]] const char* name_of(TcAttachment by);

/// Attaches the program to run first at ingress, last at egress. Errors are errno values.
[[nodiscard]] boost::system::result<AttachResult> ensure_tc(Links& links, const TcHook& hook, int program);

/// Is that program still attached there? Where that is not known (the device is gone), yes.
[[nodiscard]] bool runs_tc(const TcHook& hook, std::uint32_t program, FilterChanges filters);

/// It is no error if nothing is attached.
void remove_tc(const Links& links, const TcHook& hook);

/// Removes the qdiscs that we made and that have no filters any more, also the notes of devices that are
/// gone.
void release_qdiscs(const Links& links);

}  // namespace lb::agent
