// SPDX-License-Identifier: Apache-2.0
// Attaches programs that restore replies before programs that create flows, and XDP last, because it needs tc
// as a fallback.
#include "agent/attach/attach.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/if_link.h>
#include <linux/netdev.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <memory>
#include <ranges>
#include <string_view>
#include <utility>

#include "agent/attach/skipped_xdp.hpp"
#include "agent/programs/clsact.hpp"
#include "agent/programs/device_maps.hpp"
#include "maps/abi/abi.h"

namespace lb::agent {
namespace {

using boost::system::error_code;
using boost::system::result;

// ---- XDP. ----

std::uint32_t xdp_flags(XdpMode mode) {
  return mode == XdpMode::generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE;
}

/// The kernel's information about XDP on a device; all 0 if it has none.
bpf_xdp_query_opts xdp_of(std::uint32_t device) {
  bpf_xdp_query_opts query{};
  query.sz = sizeof(query);
  return bpf_xdp_query(static_cast<int>(device), 0, &query) == 0 ? query : bpf_xdp_query_opts{};
}

/// The mode in which XDP runs on a device; 0: it does not.
std::uint8_t attached_mode(std::uint32_t device) { return xdp_of(device).attach_mode; }

/// Whether the device reports that it cannot transmit XDP frames, like a veth whose peer does not poll.
/// Kernels before 6.3 report nothing for any device.
bool takes_no_frames(std::uint32_t device) {
  const auto features = xdp_of(device).feature_flags;
  return features != 0 && (features & NETDEV_XDP_ACT_NDO_XMIT) == 0;
}

std::uint8_t mode_of_flags(std::uint32_t flags) {
  return flags == XDP_FLAGS_SKB_MODE ? XDP_ATTACHED_SKB : XDP_ATTACHED_DRV;
}

// EBUSY and EEXIST are not final: another program, or our own link that is being removed, may be gone next
// time.
bool is_final(const error_code& error) {
  return error != boost::system::errc::device_or_resource_busy && error != boost::system::errc::file_exists;
}

/// Advice as the end of a message; empty for unknown drivers.
std::string or_else(const DeviceKind& kind) {
  const auto advice = native_xdp_advice(kind);
  return advice.empty() ? advice : "; for native XDP " + advice;
}

std::string no_native_xdp(const error_code& error, const DeviceKind& kind) {
  return fmt::format("no native XDP ({}): tc serves alone{}", error.message(), or_else(kind));
}

auto ports_of(const AttachPlan& plan, std::uint32_t bond) {
  return plan.ports | std::views::filter([bond](const Port& port) { return port.bond == bond; });
}

std::set<std::uint32_t> with_ports(const AttachPlan& plan, std::set<std::uint32_t> indices) {
  for (const auto& port : plan.ports) {
    if (indices.contains(port.bond)) {
      indices.insert(port.index);
    }
  }
  return indices;
}

/// Of the device, and of the ports of a bond, which are what frames come by.
std::string automatic_refusal(const AttachPlan& plan, const Device& device) {
  auto why = automatic_xdp_refusal(device.kind);
  for (const auto& port : ports_of(plan, device.index)) {
    why = why.empty() ? automatic_xdp_refusal(port.kind) : why;
  }
  return why;
}

/// The same of drivers that would run nothing.
std::string why_skipped(const AttachPlan& plan, const Device& device) {
  auto why = skipped_xdp(device.name);
  for (const auto& port : ports_of(plan, device.index)) {
    std::array<char, IFNAMSIZ> name{};
    if (why.empty() && if_indextoname(port.index, name.data()) != nullptr) {
      why = skipped_xdp(name.data());
    }
  }
  return why;
}

TcHook tc_hook(const AttachPlan& plan, TcSide side, const Device& device) {
  const auto pin = fmt::format("{}_{}", side == TcSide::ingress ? "tc_in" : "tc_out", device.index);
  return {plan.tc_by, side, device.index, pin};
}

}  // namespace

// ---- Attaching. ----

AttachReport Attacher::attach(const AttachPlan& plan) {
  AttachReport report;
  report.tc_by = plan.tc_by;
  generic_ = plan.xdp_mode == XdpMode::generic;
  before_ = std::exchange(wanted_, {});
  with_xdp_.clear();
  declining_.clear();
  watched_.clear();
  attach_sockets(plan, report);
  std::set<std::uint32_t> indices;
  for (const auto& device : plan.devices) {
    indices.insert(device.index);
  }
  addresses_.add(plan.frame_addresses);
  addresses_.keep_only(with_ports(plan, indices));
  for (const auto& device : plan.devices) {
    attach_device(plan, device, report);
  }
  pods_.attach(links_, plan, report);
  detach_removed(plan, indices);
  failed_ = !report.failure().empty();
  return report;
}

// The first call removes what earlier agents left; later only hooks of previous calls can exist.
void Attacher::detach_removed(const AttachPlan& plan, const std::set<std::uint32_t>& indices) {
  if (!std::exchange(swept_, true)) {
    sweep(plan, indices);
  }
  for (const auto& pin : before_) {
    if (!wanted_.contains(pin)) {
      links_.remove(pin);
    }
  }
  std::set<std::uint32_t> pods;
  pods_.add_indices(pods);
  for (const auto index : indices_) {
    if (!indices.contains(index) && !pods.contains(index)) {
      remove_clsact(links_.owner(), static_cast<int>(index), TcSide::ingress);
      remove_clsact(links_.owner(), static_cast<int>(index), TcSide::egress);
      erase_device(plan.devices_map, index);
    }
  }
  if (indices_ != indices) {
    release_qdiscs(links_);
  }
  indices_ = indices;
  keep_only(plan.devmap, with_xdp_);
}

void Attacher::sweep(const AttachPlan& plan, const std::set<std::uint32_t>& indices) {
  auto pins = wanted_;
  auto served = indices;
  pods_.add_indices(served);
  if (plan.tc_by == TcAttachment::tcx) {
    pods_.add_pins(pins);
  }
  links_.prune(pins);
  remove_clsact_filters(links_.owner(),
                        plan.tc_by == TcAttachment::clsact ? served : std::set<std::uint32_t>());
  release_qdiscs(links_);
  keep_only(plan.devices_map, served);
}

result<AttachResult> Attacher::ensure(CheckMethod method, const LinkRequest& request) {
  auto attached = links_.ensure(request);
  if (attached || request.program != left_out) {
    wanted_.insert(request.pin);
  }
  if (attached) {
    watched_.push_back({method, request, {}, attached->program});
  }
  return attached;
}

void Attacher::attach_sockets(const AttachPlan& plan, AttachReport& report) {
  for (const auto& socket : plan.sockets) {
    const LinkRequest request{socket.name, socket.program, socket.type, plan.cgroup, plan.cgroup_id, 0};
    report.hooks.push_back(report_of_program({HookKind::socket, {}, socket.name}, "cgroup", socket.program,
                                             ensure(CheckMethod::query, request)));
  }
}

void Attacher::attach_device(const AttachPlan& plan, const Device& device, AttachReport& report) {
  put_device(plan.devices_map, device.index, LB_UPLINK);
  attach_tc(plan, device, report);
  if (plan.xdp >= 0) {
    attach_xdp(plan, device, report);
  }
}

void Attacher::attach_tc(const AttachPlan& plan, const Device& device, AttachReport& report) {
  struct Side {
    TcSide side;
    int program;
    HookKind kind;
  };
  const std::array sides = {Side{TcSide::egress, plan.tc_out, HookKind::tc_egress},
                            Side{TcSide::ingress, plan.tc_in, HookKind::tc_ingress}};
  for (const auto& [side, program, kind] : sides) {
    const auto hook = tc_hook(plan, side, device);
    const auto attached = ensure_tc(links_, hook, program);
    if (plan.tc_by == TcAttachment::tcx && (attached || program != left_out)) {
      wanted_.insert(hook.pin);
    }
    if (attached && attached->program != 0) {
      watched_.push_back({CheckMethod::filter, {}, hook, attached->program});
    }
    report.hooks.push_back(report_of_program({kind, device.name}, name_of(plan.tc_by), program, attached));
  }
}

// A driver that has refused is not tried again, and the reason is kept. XDP accepts frames only for the
// device's own address, so that is written before XDP sees the first frame.
std::string Attacher::why_no_xdp(const AttachPlan& plan, const Device& device) {
  const bool automatic = plan.xdp_mode == XdpMode::automatic;
  if (const auto refused = refused_xdp_.find(device.index); automatic && refused != refused_xdp_.end()) {
    return refused->second;
  }
  if (auto why = automatic_refusal(plan, device); automatic && !why.empty()) {
    return why;
  }
  if (const auto why = why_skipped(plan, device); plan.xdp_mode != XdpMode::generic && !why.empty()) {
    return fmt::format("{}: tc serves alone; {}", why, skipped_xdp_remedy);
  }
  return put_addresses(plan, device)
             ? std::string()
             : fmt::format("its interface index is that of another served device modulo {}: tc serves alone",
                           LB_FRAME_ADDRESSES);
}

// The kernel runs a bond's program on its ports. Frames are for the bond, by whichever they come.
bool Attacher::put_addresses(const AttachPlan& plan, const Device& device) {
  return addresses_.put(device.index, device.index, device.kind.mac) &&
         std::ranges::all_of(ports_of(plan, device.index), [&](const Port& port) {
           return addresses_.put(port.index, device.index, device.kind.mac);
         });
}

void Attacher::attach_xdp(const AttachPlan& plan, const Device& device, AttachReport& report) {
  const HookId hook{HookKind::xdp, device.name};
  const auto flags = xdp_flags(plan.xdp_mode);
  const LinkRequest request{fmt::format("xdp_{}", device.index), plan.xdp,     BPF_XDP,
                            static_cast<int>(device.index),      device.index, flags};
  if (const auto why = why_no_xdp(plan, device); !why.empty()) {
    report.hooks.push_back({hook, {}, HookState::declined, why});
    return;
  }
  // The kernel refuses both modes at once, so a link of the other mode is removed first.
  if (const auto mode = attached_mode(device.index); mode != 0 && mode != mode_of_flags(flags)) {
    links_.remove(request.pin);
  }
  const auto outcome = ensure(CheckMethod::link, request);
  if (outcome && outcome->state == HookState::kept) {
    addresses_.add_program(outcome->program);
  }
  const bool refused = !outcome && !is_pin_error(outcome.error());
  if (refused && plan.xdp_mode == XdpMode::automatic) {
    if (is_final(outcome.error())) {
      refused_xdp_[device.index] = no_native_xdp(outcome.error(), device.kind);
    }
    report.hooks.push_back({hook, {}, HookState::declined, no_native_xdp(outcome.error(), device.kind)});
    return;
  }
  const bool is_unsendable = unsendable_.contains(device.index);
  const bool is_declining = !is_unsendable && declines(device.index);
  const bool sends = !is_unsendable && !is_declining;
  const std::string attach_type = plan.xdp_mode == XdpMode::generic ? "generic" : "native";
  report.hooks.push_back(report_of(hook, sends ? attach_type : attach_type + " (tc sends)", outcome));
  if (refused && plan.xdp_mode == XdpMode::native) {
    report.hooks.back().problem += or_else(device.kind);
  }
  if (outcome && is_declining) {
    declining_.insert(device.index);
  }
  if (outcome && sends) {
    with_xdp_.insert(device.index);
    put_port(plan.devmap, device.index);
  }
}

void Attacher::drop(const std::vector<std::string>& names) const {
  for (const auto& name : names) {
    links_.remove(name);
  }
}

/// Generic XDP sends socket buffers, which every device transmits.
bool Attacher::declines(std::uint32_t device) const { return !generic_ && takes_no_frames(device); }

// A device that reports this itself may change its report later; otherwise nothing shows when it would
// transmit again.
void Attacher::stop_sending(std::uint32_t device) {
  if (!declines(device)) {
    unsendable_.insert(device);
  }
}

std::vector<std::uint32_t> Attacher::sending() const { return {with_xdp_.begin(), with_xdp_.end()}; }

void remove_clsact_filters(const FilterOwner& owner, const std::set<std::uint32_t>& except) {
  const std::unique_ptr<struct if_nameindex, decltype(&if_freenameindex)> all(if_nameindex(),
                                                                              &if_freenameindex);
  for (const auto* device = all.get(); device != nullptr && device->if_index != 0; ++device) {
    if (!except.contains(device->if_index)) {
      remove_clsact(owner, static_cast<int>(device->if_index), TcSide::ingress);
      remove_clsact(owner, static_cast<int>(device->if_index), TcSide::egress);
    }
  }
}

// ---- Checking. ----

bool Attacher::runs(const Watched& hook, FilterChanges filters) const {
  switch (hook.method) {
    case CheckMethod::query:  // a cgroup that cannot be queried is being removed
      return runs_at(hook.request.target, hook.request.type, hook.program).value_or(false);
    case CheckMethod::link:
      return links_.holds(hook.request.pin, hook.request.target_id);
    case CheckMethod::filter:
      return runs_tc(hook.tc, hook.program, filters);
  }
  return true;
}

bool Attacher::intact(FilterChanges filters) {
  const bool ours = std::ranges::all_of(watched_, [&](const auto& hook) { return runs(hook, filters); });
  const bool pods = pods_.intact(filters);
  return all_pinned() && ours && pods && !failed_ && sends_as_before();
}

// No rtnetlink event reports a change of a device's XDP features.
bool Attacher::sends_as_before() const {
  const auto declines_now = [this](auto device) { return declines(device); };
  return std::ranges::none_of(with_xdp_, declines_now) && std::ranges::all_of(declining_, declines_now);
}

// The mtime is read before the check, so that the next check notices changes during this one.
bool Attacher::all_pinned() {
  const auto changed = links_.changed();
  if (changed && changed == pins_seen_) {
    return true;
  }
  const bool ours = std::ranges::all_of(wanted_, [&](const auto& pin) { return links_.pinned(pin); });
  const bool pods = pods_.pinned(links_);
  if (ours && pods) {
    pins_seen_ = changed;
  }
  return ours && pods;
}

}  // namespace lb::agent
