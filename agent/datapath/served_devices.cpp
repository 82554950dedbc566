// SPDX-License-Identifier: Apache-2.0
#include "agent/datapath/served_devices.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <utility>

#include "agent/attach/pods.hpp"
#include "agent/netlink/unserved_devices.hpp"

namespace lb::agent {
namespace {

/// Pods' devices that are named or belong to a named bridge, and those that are found; without uplinks.
std::vector<Device> all_pods(const NodeNetwork& network, const std::vector<Uplink>& uplinks,
                             const AgentOptions& options) {
  std::map<std::uint32_t, Device> pods;
  for (const auto& named : pod_devices(network.devices(), options)) {
    pods.emplace(named.index, named);
  }
  for (const auto& found : find_pods(network.links(), uplinks, options)) {
    pods.emplace(found.index, Device{found.name, found.index});
  }
  std::vector<Device> devices;
  for (const auto& [index, device] : pods) {
    if (std::ranges::find(uplinks, device.name, &Uplink::name) == uplinks.end()) {
      devices.push_back(device);
    }
  }
  return devices;
}

}  // namespace

Routes wanted_routes(const AgentOptions& options) {
  const bool finds =
      options.uplink_discovery == Discovery::automatic || options.pod_discovery == Discovery::automatic;
  return finds ? Routes::followed : Routes::ignored;
}

ServedDevices::ServedDevices(const AgentOptions& options, const NodeWatch& node)
    : options_(options), node_(node), names_(options.devices) {}

bool ServedDevices::decide(const std::vector<k8s::Address>& node_addresses, TimePoint now) {
  const auto& network = node_.network();
  node_addresses_ = node_addresses;
  if (!network.whole()) {
    return false;
  }
  const auto links = network.links();
  auto found = kept_.joined(find_uplinks(links, options_, node_addresses), links, now);
  auto pods = all_pods(network, found, options_);
  const bool same = names_of(found) == names_ && pods == pods_;
  if (found != found_ && options_.uplink_discovery == Discovery::automatic) {
    report(found);
  }
  found_ = std::move(found);
  names_ = names_of(found_);
  indices_ = served_uplinks(links, names_);
  pods_ = std::move(pods);
  return !same;
}

void ServedDevices::report(const std::vector<Uplink>& found) {
  if (found.empty()) {
    spdlog::warn(
        "--devices auto finds no uplink: there is no default route, no device with an address of the Node "
        "and no tunnel; node ports are served at sockets only until there is one");
  } else {
    spdlog::info("uplinks: {}", uplinks_text(found));
  }
}

}  // namespace lb::agent
