// Reattaches hooks that were detached, and reports programs that run before ours.
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

/// Between two looks whether all hooks are still there, which a second must suffice for (REL-19). It is most
/// of what wakes an idle agent, which shall wake up twice a second at most.
constexpr std::chrono::milliseconds pause{700};

/// Every so many of them it also looks who else is at our hooks, and tries those of sockets.
constexpr unsigned looks_until_beside = 7;

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
                                           Metrics& metrics, std::function<void(Look look)> looked)
    : timer_(context),
      datapath_(datapath),
      node_(node),
      served_(served),
      metrics_(metrics),
      looked_(std::move(looked)) {}

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
    const auto look = ++looks_ % looks_until_beside == 0 ? Look::thorough : Look::usual;
    looked_(look);
    if (look == Look::thorough) {
      look_at_neighbours();
      reattach_idle_hooks();
    }
  });
}

/// Reattaches what was detached from outside, and tries again each time.
void AttachmentReconciler::heal() {
  const auto changes = std::exchange(filter_changes_, node_.network().filter_changes());
  const auto filters = changes == filter_changes_ ? FilterChanges::none : FilterChanges::some;
  report(datapath_.restore(filters), heal_failure_);
}

/// A device that is not served, or not by XDP, is reported once for each reason.
void AttachmentReconciler::report_declined() {
  for (const auto& sentence : datapath_.declined()) {
    if (std::ranges::find(declined_, sentence) == declined_.end()) {
      spdlog::warn("{}", sentence);
    }
  }
  declined_ = datapath_.declined();
}

/// A program may be attached and never run: its cgroup is gone (REL-70).
void AttachmentReconciler::reattach_idle_hooks() {
  report(datapath_.reattach_idle_hooks(), reattach_failure_);
}

/// Who came to our hooks, or went, is reported once: one before us may keep packets from us (REL-68).
void AttachmentReconciler::look_at_neighbours() {
  auto text = neighbours_text(neighbours_of(served_.uplinks()));
  if (text != neighbours_) {
    spdlog::warn(
        "other programs share our hooks: {}; packets that an earlier one does not pass on (TCX_NEXT, "
        "TC_ACT_UNSPEC) never "
        "reach Sluice",
        text.empty() ? "none any more" : text);
  }
  neighbours_ = std::move(text);
}

/// What came back, and once why something did not.
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
