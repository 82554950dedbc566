// The order of attaching: what restores replies before what opens flows, XDP last because it needs tc behind
// it.
#include "agent/attach.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/if_link.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "agent/clsact.hpp"
#include "maps/abi.h"

namespace lb::agent {
namespace {

using boost::system::error_code;
using boost::system::result;

constexpr std::string_view cgroup_prefix = "cgroup ";

HookReport report_of(std::string place, std::string means, const result<HookState>& outcome) {
  if (outcome) {
    return {std::move(place), std::move(means), *outcome, {}};
  }
  return {std::move(place), {}, HookState::failed, outcome.error().message()};
}

bool serves(const HookReport& hook) {
  return hook.state != HookState::failed && hook.state != HookState::declined;
}

// ---- Maps that say which devices take part. Values are constant, so an entry that is there stays. ----

template <class Value>
void put_if_absent(int map, std::uint32_t key, const Value& value) {
  Value present;
  if (maps::raw::get(map, &key, &present)) {
    // A full map shows as a device that is not served; the device count is checked before.
    static_cast<void>(maps::raw::put(map, &key, &value, maps::Put::any));
  }
}

std::vector<std::uint32_t> keys_of(int map) {
  std::vector<std::uint32_t> keys;
  std::uint32_t key = 0;
  std::uint32_t previous = 0;
  while (keys.size() < LB_MAX_DEVICES &&
         bpf_map_get_next_key(map, keys.empty() ? nullptr : &previous, &key) == 0) {
    keys.push_back(key);
    previous = key;
  }
  return keys;
}

void keep_only(int map, const std::set<std::uint32_t>& wanted) {
  for (const auto key : keys_of(map)) {
    if (!wanted.contains(key)) {
      static_cast<void>(maps::raw::erase(map, &key));
    }
  }
}

void put_device(int map, std::uint32_t index) {
  lb_device device{};
  device.kind = LB_OUTWARD;
  device.check = lb_device_check(index);
  put_if_absent(map, index, device);
}

// ---- XDP. ----

std::uint32_t xdp_flags(XdpMode mode) {
  return mode == XdpMode::generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE;
}

/// How XDP runs on a device now; 0: not at all.
std::uint8_t attached_mode(std::uint32_t device) {
  bpf_xdp_query_opts query{};
  query.sz = sizeof(query);
  return bpf_xdp_query(static_cast<int>(device), 0, &query) == 0 ? query.attach_mode : 0;
}

std::uint8_t mode_of_flags(std::uint32_t flags) {
  return flags == XDP_FLAGS_SKB_MODE ? XDP_ATTACHED_SKB : XDP_ATTACHED_DRV;
}

// Somebody else's program, or our own link that is just going away, may be gone the next time.
bool is_final(const error_code& error) {
  return error != boost::system::errc::device_or_resource_busy && error != boost::system::errc::file_exists;
}

// XDP can only be declined where tc serves alone without being asked to.
HookReport declined(const std::string& place, const std::string& why) {
  return {place, {}, HookState::declined, fmt::format("{}: tc serves alone", why)};
}

std::string tc_pin(TcSide side, const Device& device) {
  return fmt::format("{}_{}", side == TcSide::ingress ? "tc_in" : "tc_out", device.index);
}

}  // namespace

// ---- The report. ----

std::string AttachReport::failure() const {
  const auto failed = std::ranges::find(hooks, HookState::failed, &HookReport::state);
  return failed == hooks.end() ? std::string()
                               : fmt::format("cannot attach to {}: {}", failed->place, failed->problem);
}

std::size_t AttachReport::count(HookState state) const {
  return static_cast<std::size_t>(std::ranges::count(hooks, state, &HookReport::state));
}

std::string AttachReport::sockets_text() const {
  std::size_t all = 0;
  std::size_t serving = 0;
  for (const auto& hook : hooks) {
    if (hook.place.starts_with(cgroup_prefix)) {
      ++all;
      serving += serves(hook) ? 1 : 0;
    }
  }
  return all == 0 ? "off" : fmt::format("cgroup, {} of {} hooks", serving, all);
}

// The reports of a device follow one another: ingress, egress, XDP.
std::string AttachReport::packets_text() const {
  std::string text;
  std::string last;
  for (const auto& hook : hooks) {
    const auto device = hook.place.substr(0, hook.place.find(' '));
    if (hook.place.starts_with(cgroup_prefix) || !serves(hook) || hook.place.ends_with(" egress")) {
      continue;
    }
    text += device == last ? "+" + hook.means
                           : fmt::format("{}{} {}", text.empty() ? "" : ", ", device, hook.means);
    last = device;
  }
  return text.empty() ? "off" : text;
}

// ---- Attaching. ----

AttachReport Attacher::attach(const AttachPlan& plan) {
  AttachReport report;
  wanted_.clear();
  with_xdp_.clear();
  attach_sockets(plan, report);
  std::set<std::uint32_t> indices;
  for (const auto& device : plan.devices) {
    indices.insert(device.index);
    attach_device(plan, device, report);
  }
  links_.prune(wanted_);
  remove_clsact_filters(plan.tc_by == TcBy::clsact ? indices : std::set<std::uint32_t>());
  keep_only(plan.devices_map, indices);
  keep_only(plan.ports_map, with_xdp_);
  return report;
}

result<HookState> Attacher::ensure(const LinkRequest& request) {
  wanted_.insert(request.pin);
  return links_.ensure(request);
}

void Attacher::attach_sockets(const AttachPlan& plan, AttachReport& report) {
  for (const auto& socket : plan.sockets) {
    const LinkRequest request{socket.name, socket.program, socket.type, plan.cgroup, plan.cgroup_id, 0};
    report.hooks.push_back(report_of(std::string(cgroup_prefix) + socket.name, "cgroup", ensure(request)));
  }
}

void Attacher::attach_device(const AttachPlan& plan, const Device& device, AttachReport& report) {
  put_device(plan.devices_map, device.index);
  attach_tc(plan, device, report);
  if (plan.xdp >= 0) {
    attach_xdp(plan, device, report);
  }
}

void Attacher::attach_tc(const AttachPlan& plan, const Device& device, AttachReport& report) {
  struct Side {
    TcSide side;
    int program;
    bpf_attach_type type;
    std::uint32_t place;
    const char* name;
  };
  const std::array sides = {Side{TcSide::egress, plan.tc_out, BPF_TCX_EGRESS, BPF_F_AFTER, "egress"},
                            Side{TcSide::ingress, plan.tc_in, BPF_TCX_INGRESS, BPF_F_BEFORE, "ingress"}};
  const auto index = static_cast<int>(device.index);
  for (const auto& [side, program, type, where, name] : sides) {
    const auto place = fmt::format("{} {}", device.name, name);
    if (plan.tc_by == TcBy::tcx) {
      const LinkRequest request{tc_pin(side, device), program, type, index, device.index, where};
      report.hooks.push_back(report_of(place, "tcx", ensure(request)));
    } else {
      report.hooks.push_back(report_of(place, "clsact", ensure_clsact(index, side, program)));
    }
  }
}

void Attacher::attach_xdp(const AttachPlan& plan, const Device& device, AttachReport& report) {
  const auto place = device.name + " xdp";
  const auto flags = xdp_flags(plan.xdp_mode);
  const LinkRequest request{fmt::format("xdp_{}", device.index), plan.xdp,     BPF_XDP,
                            static_cast<int>(device.index),      device.index, flags};
  if (refused_xdp_.contains(device.index)) {
    report.hooks.push_back(declined(place, "the driver refused native XDP before"));
    return;
  }
  // Both modes at once are refused by the kernel, so a link of the other mode goes first.
  if (const auto mode = attached_mode(device.index); mode != 0 && mode != mode_of_flags(flags)) {
    links_.remove(request.pin);
  }
  const auto outcome = ensure(request);
  if (!outcome && plan.xdp_mode == XdpMode::automatic) {
    if (is_final(outcome.error())) {
      refused_xdp_.insert(device.index);
    }
    report.hooks.push_back(declined(place, "no native XDP (" + outcome.error().message() + ")"));
    return;
  }
  report.hooks.push_back(report_of(place, plan.xdp_mode == XdpMode::generic ? "generic" : "native", outcome));
  if (outcome) {
    with_xdp_.insert(device.index);
    put_if_absent(plan.ports_map, device.index, device.index);
  }
}

void remove_clsact_filters(const std::set<std::uint32_t>& except) {
  const std::unique_ptr<struct if_nameindex, decltype(&if_freenameindex)> all(if_nameindex(),
                                                                              &if_freenameindex);
  for (const auto* device = all.get(); device != nullptr && device->if_index != 0; ++device) {
    if (!except.contains(device->if_index)) {
      remove_clsact(static_cast<int>(device->if_index), TcSide::ingress);
      remove_clsact(static_cast<int>(device->if_index), TcSide::egress);
    }
  }
}

}  // namespace lb::agent
