// SPDX-License-Identifier: Apache-2.0
// One interface for both ways to attach to a device.
#include "agent/programs/tc_hook.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "agent/programs/pins_beside.hpp"

namespace lb::agent {
namespace {

constexpr const char* qdisc_note = "qdisc_";

bool holds_ours(const Links& links, int device) {
  return has_clsact(links.owner(), device, TcSide::ingress) ||
         has_clsact(links.owner(), device, TcSide::egress);
}

/// Whether another Sluice beside this one has noted the qdisc as its own: then the last of them removes it.
bool noted_beside(const Links& links, const std::string& name) {
  return std::ranges::any_of(pins_beside(links.owner().pins()),
                             [&](const auto& pins) { return Links(pins.links()).noted(name); });
}

// Notes the qdisc before the first filter, so that the next start knows what a killed one left.
boost::system::error_code prepare_qdisc(const Links& links, int device) {
  const auto qdisc = ensure_qdisc(device);
  if (!qdisc) {
    return qdisc.error();
  }
  const auto name = qdisc_note + std::to_string(device);
  if (*qdisc == Qdisc::made || noted_beside(links, name)) {
    links.note(name);
  }
  return {};
}

void release_qdisc(const Links& links, int device) {
  const auto name = qdisc_note + std::to_string(device);
  if (links.noted(name) && !holds_ours(links, device)) {
    remove_empty_qdisc(device);
    links.forget(name);
  }
}

bpf_attach_type type_of(TcSide side) { return side == TcSide::ingress ? BPF_TCX_INGRESS : BPF_TCX_EGRESS; }

}  // namespace

const char* name_of(TcAttachment by) { return by == TcAttachment::tcx ? "tcx" : "clsact"; }

boost::system::result<AttachResult> ensure_tc(Links& links, const TcHook& hook, int program) {
  const auto index = static_cast<int>(hook.device);
  if (hook.by == TcAttachment::clsact && program == left_out) {
    const bool attached = has_clsact(links.owner(), index, hook.side);
    if (!attached) {
      return make_error_code(boost::system::errc::no_link);
    }
    return AttachResult{HookState::kept, 0};
  }
  if (hook.by == TcAttachment::clsact) {
    if (!has_clsact(links.owner(), index, hook.side)) {
      if (const auto error = prepare_qdisc(links, index)) {
        return error;
      }
    }
    return ensure_clsact(links.owner(), index, hook.side, program);
  }
  const std::uint32_t place = hook.side == TcSide::ingress ? BPF_F_BEFORE : BPF_F_AFTER;
  return links.ensure({hook.pin, program, type_of(hook.side), index, hook.device, place});
}

bool runs_tc(const TcHook& hook, std::uint32_t program, FilterChanges filters) {
  const auto index = static_cast<int>(hook.device);
  if (hook.by == TcAttachment::tcx) {
    return runs_at(index, type_of(hook.side), program).value_or(true);
  }
  return filters == FilterChanges::none || runs_clsact(index, hook.side, program);
}

void remove_tc(const Links& links, const TcHook& hook) {
  if (hook.by == TcAttachment::tcx) {
    links.remove(hook.pin);
  } else {
    remove_clsact(links.owner(), static_cast<int>(hook.device), hook.side);
    release_qdisc(links, static_cast<int>(hook.device));
  }
}

void release_qdiscs(const Links& links) {
  const std::string_view prefix = qdisc_note;
  for (const auto& name : links.notes(qdisc_note)) {
    int device = 0;
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), device);
    release_qdisc(links, device);
  }
}

}  // namespace lb::agent
