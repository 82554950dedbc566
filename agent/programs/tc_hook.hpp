// One side of a device and the tc program that shall run there, by TCX link or by clsact filter.
#pragma once

#include <linux/bpf.h>

#include <boost/system/result.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "agent/programs/clsact.hpp"
#include "agent/programs/links.hpp"

namespace lb::agent {

enum class TcBy : std::uint8_t { tcx, clsact };

/// Was a filter removed, or one of ours replaced, since the last look? Filters cost five system calls
/// to look at, and the kernel reports when one goes or comes.
enum class Filters : std::uint8_t { quiet, disturbed };

struct TcHook {
  TcBy by = TcBy::tcx;
  TcSide side = TcSide::ingress;
  std::uint32_t device = 0;  ///< interface index
  std::string pin;           ///< of its link; unused by filters
};

[[nodiscard]] const char* name_of(TcBy by);

/// First at ingress, last at egress. Errors are errno values.
[[nodiscard]] boost::system::result<AttachResult> ensure_tc(Links& links, const TcHook& hook, int program);

/// Does that program still run there? Where that is not known (the device is gone), yes.
[[nodiscard]] bool runs_tc(const TcHook& hook, std::uint32_t program, Filters filters);

/// Nothing there is fine.
void remove_tc(const Links& links, const TcHook& hook);

/// Removes the qdiscs that we made and that hold no filter any more, of devices that are gone too.
void release_qdiscs(const Links& links);

}  // namespace lb::agent
