// SPDX-License-Identifier: Apache-2.0
// Reattaches detached hooks, and reports programs that run before ours.
#include "agent/datapath/attachment_reconciler.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "agent/attach/device_kind.hpp"
#include "agent/attach/hook_neighbours.hpp"
#include "agent/base/repeat.hpp"

namespace lb::agent {
namespace {

/// Pause between two checks that all hooks are attached; a detached hook must be back within a second
/// (REL-19). These checks are most of the wake-ups of an idle agent, which should be at most two a second.
constexpr std::chrono::milliseconds pause{700};

/// Every this many checks, also checks for other programs at our hooks, and tests the socket hooks.
constexpr unsigned checks_until_thorough = 7;

std::vector<Port> active_ports(const std::map<std::uint32_t, NetDevice>& devices) {
  std::vector<Port> ports;
  for (const auto& [index, device] : devices) {
    if (device.bond_port != BondPort::active) {
      continue;
    }
    if (const auto kind = device_kind(device.name)) {
      ports.push_back({index, device.master, *kind});
    }
  }
  return ports;
}

}  // namespace

AttachmentReconciler::AttachmentReconciler(boost::asio::io_context& context, Datapath& datapath,
                                           const NodeWatch& node, const ServedDevices& served,
                                           Metrics& metrics, std::function<void(CheckDepth depth)> checked)
    : timer_(context),
      datapath_(datapath),
      node_(node),
      served_(served),
      metrics_(metrics),
      checked_(std::move(checked)) {}

AttachReport AttachmentReconciler::attach() {
  devices_ = node_.network().devices();
  uplinks_ = served_.uplinks();
  pods_ = served_.pods();
  datapath_.set_uplinks(uplinks_);
  datapath_.set_ports(active_ports(devices_));
  datapath_.set_pods(pods_);
  auto report = datapath_.attach();
  report_declined();
  return report;
}

void AttachmentReconciler::follow_devices() {
  if (node_.network().devices() == devices_ && served_.uplinks() == uplinks_ && served_.pods() == pods_) {
    return;
  }
  const auto report = attach();
  if (report.count(HookState::attached) + report.count(HookState::updated) + report.count(HookState::failed) >
      0) {
    spdlog::info("hooks after a change of devices: sockets: {}; packets: {}", report.sockets_text(),
                 report.packets_text());
  }
  if (const auto failure = report.failure(); !failure.empty()) {
    spdlog::error("{}", failure);
  }
  if (const auto failure = report.pod_failure(); !failure.empty()) {
    spdlog::warn("a pod's device is not served: {}", failure);
  }
}

void AttachmentReconciler::start() {
  repeat(timer_, pause, [this] {
    heal();
    datapath_.limit_socket_storage();
    const auto depth = ++checks_ % checks_until_thorough == 0 ? CheckDepth::thorough : CheckDepth::usual;
    checked_(depth);
    if (depth == CheckDepth::thorough) {
      check_neighbours();
      reattach_idle_hooks();
    }
  });
}

/// Reattaches hooks that were detached from outside, and retries at each check.
void AttachmentReconciler::heal() {
  const auto changes = std::exchange(filter_changes_, node_.network().filter_changes());
  const auto filters = changes == filter_changes_ ? FilterChanges::none : FilterChanges::some;
  report(datapath_.restore(filters), heal_failure_);
}

/// Reports a device that is not served, or not by XDP, once for each reason.
void AttachmentReconciler::report_declined() {
  for (const auto& message : datapath_.declined()) {
    if (std::ranges::find(declined_, message) == declined_.end()) {
      spdlog::warn("{}", message);
    }
  }
  declined_ = datapath_.declined();
}

/// A program may be attached and never run, because its cgroup was removed (REL-70).
void AttachmentReconciler::reattach_idle_hooks() {
  report(datapath_.reattach_idle_hooks(), reattach_failure_);
}

/// Reports once when other programs are added to or removed from our hooks: one before ours may keep packets
/// from us (REL-68).
void AttachmentReconciler::check_neighbours() {
  auto text = neighbours_text(neighbours_of(served_.uplinks()));
  if (text != neighbours_) {
    spdlog::warn(
        "other programs share our hooks: {}; packets that an earlier one does not pass on (TCX_NEXT, "
        "TC_ACT_UNSPEC) never reach Sluice",
        text.empty() ? "none any more" : text);
  }
  neighbours_ = std::move(text);
}

/// Reports restored hooks and maps, and once why others could not be restored.
void AttachmentReconciler::report(const Restored& restored, std::string& failure) {
  report_declined();
  std::vector<std::string> texts;
  for (const auto& hook : restored.hooks) {
    metrics_.restored(std::string(hook.name()));
    texts.push_back(hook.text());
  }
  for (std::size_t map = 0; map < restored.maps; ++map) {
    metrics_.restored("map");
  }
  if (!texts.empty()) {
    spdlog::warn("reattached {} (detached or unpinned from outside)", fmt::join(texts, ", "));
  }
  if (restored.maps > 0) {
    spdlog::warn("pinned {} maps again (unpinned from outside)", restored.maps);
  }
  if (restored.failure != std::exchange(failure, restored.failure) && !restored.failure.empty()) {
    spdlog::error("{}", restored.failure);
  }
}

}  // namespace lb::agent
