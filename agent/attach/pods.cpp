// SPDX-License-Identifier: Apache-2.0
// Hooks of pods' devices.
#include "agent/attach/pods.hpp"

#include <fmt/format.h>
#include <net/if_arp.h>

#include <algorithm>

#include "agent/programs/device_maps.hpp"

namespace lb::agent {
namespace {

bool has_prefix(const std::string& name, const std::vector<std::string>& prefixes) {
  return std::ranges::any_of(prefixes, [&](const auto& prefix) { return name.starts_with(prefix); });
}

bool on_bridge(const NetDevice& device, const std::map<std::uint32_t, NetDevice>& all,
               const std::string& bridge) {
  const auto master = all.find(device.master);
  return !bridge.empty() && master != all.end() && master->second.name == bridge;
}

// Pin names use the index, because a device name may not be safe in a path.
TcHook hook_of(TcAttachment by, TcSide side, std::uint32_t device) {
  return {by, side, device, fmt::format("{}_{}", side == TcSide::ingress ? "pod_in" : "pod_out", device)};
}

/// Attaches one side unless it is attached; adds changes and failures to the report, and returns false after
/// a failure.
bool ensure_side(Links& links, const TcHook& hook, int program, std::uint32_t& running,
                 const std::string& device, AttachReport& report) {
  if (running != 0) {
    return true;
  }
  const auto kind = hook.side == TcSide::ingress ? HookKind::pod_ingress : HookKind::pod_egress;
  const auto attached = ensure_tc(links, hook, program);
  running = attached ? attached->program : 0;
  if (program != left_out && (!attached || attached->state != HookState::kept)) {
    report.pod_hooks.push_back(report_of({kind, device}, name_of(hook.by), attached));
  }
  return attached.has_value();
}

}  // namespace

std::vector<Device> pod_devices(const std::map<std::uint32_t, NetDevice>& devices,
                                const AgentOptions& options) {
  std::vector<Device> pods;
  for (const auto& [index, device] : devices) {
    const bool uplink = std::ranges::find(options.devices, device.name) != options.devices.end();
    if (!uplink && device.hardware == ARPHRD_ETHER &&
        (has_prefix(device.name, options.pod_devices) || on_bridge(device, devices, options.pod_bridge))) {
      pods.push_back({device.name, index});
    }
  }
  return pods;
}

// Attaches egress first: packets that the ingress program translates get no reply until the egress program
// restores addresses.
void PodHooks::attach(Links& links, const AttachPlan& plan, AttachReport& report) {
  detach_removed(links, plan);
  by_ = plan.tc_by;
  for (const auto& device : plan.pods) {
    auto& hooked = hooked_[device.index];
    if (!hooked.whole()) {
      if (plan.pod_in != left_out) {
        put_device(plan.devices_map, device.index, LB_POD);
      }
      const auto egress = hook_of(by_, TcSide::egress, device.index);
      const auto ingress = hook_of(by_, TcSide::ingress, device.index);
      static_cast<void>(ensure_side(links, egress, plan.pod_out, hooked.out, device.name, report) &&
                        ensure_side(links, ingress, plan.pod_in, hooked.in, device.name, report));
    }
    report.pods += hooked.whole() ? 1 : 0;
    if (plan.pod_in == left_out && !hooked.whole()) {
      hooked_.erase(device.index);
    }
  }
}

void PodHooks::detach_removed(Links& links, const AttachPlan& plan) {
  std::set<std::uint32_t> wanted;
  for (const auto& device : plan.pods) {
    wanted.insert(device.index);
  }
  std::erase_if(hooked_, [&](const auto& entry) {
    const auto index = entry.first;
    if (wanted.contains(index)) {
      return false;
    }
    remove_tc(links, hook_of(by_, TcSide::ingress, index));
    remove_tc(links, hook_of(by_, TcSide::egress, index));
    if (!is_uplink(plan, index)) {
      erase_device(plan.devices_map, index);
    }
    return true;
  });
}

bool PodHooks::intact(FilterChanges filters) {
  bool whole = true;
  for (auto& [index, hooked] : hooked_) {
    if (hooked.in != 0 && !runs_tc(hook_of(by_, TcSide::ingress, index), hooked.in, filters)) {
      hooked.in = 0;
    }
    if (hooked.out != 0 && !runs_tc(hook_of(by_, TcSide::egress, index), hooked.out, filters)) {
      hooked.out = 0;
    }
    whole = whole && hooked.whole();
  }
  return whole;
}

bool PodHooks::pinned(const Links& links) {
  bool whole = true;
  for (auto& [index, hooked] : hooked_) {
    if (by_ == TcAttachment::tcx && hooked.in != 0 &&
        !links.pinned(hook_of(by_, TcSide::ingress, index).pin)) {
      hooked.in = 0;
    }
    if (by_ == TcAttachment::tcx && hooked.out != 0 &&
        !links.pinned(hook_of(by_, TcSide::egress, index).pin)) {
      hooked.out = 0;
    }
    whole = whole && hooked.whole();
  }
  return whole;
}

void PodHooks::add_pins(std::set<std::string>& pins) const {
  for (const auto& [index, hooked] : hooked_) {
    pins.insert(hook_of(by_, TcSide::ingress, index).pin);
    pins.insert(hook_of(by_, TcSide::egress, index).pin);
  }
}

void PodHooks::add_indices(std::set<std::uint32_t>& indices) const {
  for (const auto& [index, hooked] : hooked_) {
    indices.insert(index);
  }
}

}  // namespace lb::agent
