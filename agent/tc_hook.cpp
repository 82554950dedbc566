// The two ways to a device's hook behind one set of words.
#include "agent/tc_hook.hpp"

namespace lb::agent {
namespace {

bpf_attach_type type_of(TcSide side) { return side == TcSide::ingress ? BPF_TCX_INGRESS : BPF_TCX_EGRESS; }

}  // namespace

const char* name_of(TcBy by) { return by == TcBy::tcx ? "tcx" : "clsact"; }

boost::system::result<Held> ensure_tc(Links& links, const TcHook& hook, int program) {
  const auto index = static_cast<int>(hook.device);
  if (hook.by == TcBy::clsact) {
    return ensure_clsact(index, hook.side, program);
  }
  const std::uint32_t place = hook.side == TcSide::ingress ? BPF_F_BEFORE : BPF_F_AFTER;
  return links.ensure({hook.pin, program, type_of(hook.side), index, hook.device, place});
}

bool runs_tc(const TcHook& hook, std::uint32_t program, Filters filters) {
  const auto index = static_cast<int>(hook.device);
  if (hook.by == TcBy::tcx) {
    return runs_at(index, type_of(hook.side), program).value_or(true);
  }
  return filters == Filters::quiet || runs_clsact(index, hook.side, program);
}

void remove_tc(const Links& links, const TcHook& hook) {
  if (hook.by == TcBy::tcx) {
    links.remove(hook.pin);
  } else {
    remove_clsact(static_cast<int>(hook.device), hook.side);
  }
}

}  // namespace lb::agent
