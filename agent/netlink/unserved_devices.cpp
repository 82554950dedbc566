// SPDX-License-Identifier: Apache-2.0
#include "agent/netlink/unserved_devices.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <net/if_arp.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace lb::agent {
namespace {

/// Kinds of devices whose peer may be a pod or a virtual machine of this node.
constexpr std::array<std::string_view, 3> guest_kinds = {"veth", "netkit", "tun"};

/// Devices listed in the line of `status`, which has little room.
constexpr std::size_t max_named = 3;

bool is_guest(const NetDevice& device) {
  const bool is_kind = std::ranges::find(guest_kinds, std::string_view(device.kind)) != guest_kinds.end();
  return is_kind && (device.kind == "tun" || device.peer_netns.has_value());
}

bool is_served_uplink(const NetDevice& device, const std::vector<std::string>& uplinks) {
  return device.hardware == ARPHRD_ETHER && std::ranges::find(uplinks, device.name) != uplinks.end();
}

bool is_vrf_port(const NetDevice& device, const NodeLinks& links) {
  const auto master = links.find(device.master);
  return master != links.end() && master->second.device.kind == "vrf";
}

std::string backends_text(std::size_t count) {
  return count == 1 ? std::string("1 backend") : fmt::format("{} backends", count);
}

std::string_view advice(const UnservedBackends& backends) {
  return backends.encapsulates
             ? "let a tunnel device add the headers instead of the route, and serve that"
             : "name the device with --devices, if it has Ethernet headers, or route to them by one that is "
               "served";
}

LogMessage warning_about(const std::string& device, const UnservedBackends& backends) {
  return {LogMessage::Level::warning,
          fmt::format(
              "device {} is not served, and routes lead to {} by it, such as {}: clients outside keep their "
              "address there, and get no answer where it does not come back through this node; {}",
              device, backends_text(backends.count), backends.example, advice(backends))};
}

LogMessage recovered(const std::string& device) {
  return {LogMessage::Level::info,
          fmt::format("device {} is served, or routes lead to no backends by it any more", device)};
}

}  // namespace

std::set<std::uint32_t> served_uplinks(const NodeLinks& links, const std::vector<std::string>& uplinks) {
  std::set<std::uint32_t> indices;
  for (const auto& [index, link] : links) {
    if (!is_served_uplink(link.device, uplinks)) {
      continue;
    }
    if (is_vrf_port(link.device, links)) {
      return {};
    }
    indices.insert(index);
  }
  return indices;
}

UnservedDevices::UnservedDevices(const NodeLinks& links, const std::vector<std::string>& uplinks,
                                 const std::set<std::uint32_t>& pods) {
  bool serves = false;
  bool has_vrf = false;
  for (const auto& [index, link] : links) {
    const auto& device = link.device;
    if (is_guest(device)) {
      guests_.insert({index, device.master});
    }
    if (is_served_uplink(device, uplinks)) {
      serves = true;
      uplinks_.emplace(index, device.name);
      has_vrf = has_vrf || is_vrf_port(device, links);
    } else if (device.hardware != ARPHRD_LOOPBACK && !pods.contains(index)) {
      unserved_.emplace(index, device.name);
    }
  }
  if (!serves || has_vrf) {
    unserved_.clear();
    uplinks_.clear();
  }
}

std::optional<UnservedDevice> UnservedDevices::at(const NextHop& hop) const {
  if (const auto uplink = uplinks_.find(hop.device); uplink != uplinks_.end()) {
    if (hop.kind != HopKind::encapsulated) {
      return std::nullopt;
    }
    return UnservedDevice{uplink->second + " (encap)", true};
  }
  const auto device = unserved_.find(hop.device);
  if (device == unserved_.end() || (hop.kind == HopKind::on_link && guests_.contains(hop.device))) {
    return std::nullopt;
  }
  return UnservedDevice{device->second};
}

std::string unserved_text(const UnservedByDevice& found) {
  std::vector<std::string> devices;
  for (const auto& [device, backends] : found) {
    if (devices.size() == max_named) {
      devices.push_back(fmt::format("{} more", found.size() - max_named));
      break;
    }
    devices.push_back(fmt::format("{} ({})", device, backends_text(backends.count)));
  }
  return devices.empty() ? "" : fmt::format("unserved devices: {}", fmt::join(devices, ", "));
}

std::vector<LogMessage> UnservedReport::messages(const UnservedByDevice& found, TimePoint now) {
  std::vector<LogMessage> messages;
  for (const auto& [device, backends] : found) {
    auto [warning, is_first] = warnings_.try_emplace(device);
    if (warning->second.is_unserved || (!is_first && now - warning->second.at < pause)) {
      continue;
    }
    warning->second = {true, now};
    messages.push_back(warning_about(device, backends));
  }
  for (auto& [device, warning] : warnings_) {
    if (!warning.is_unserved || found.contains(device)) {
      continue;
    }
    warning.is_unserved = false;
    messages.push_back(recovered(device));
  }
  std::erase_if(warnings_, [now](const auto& each) {
    return !each.second.is_unserved && now - each.second.at >= pause;
  });
  return messages;
}

}  // namespace lb::agent
