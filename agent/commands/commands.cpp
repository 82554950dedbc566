// SPDX-License-Identifier: Apache-2.0
// Opens the pins, reads the data of the command, and formats it.
#include "agent/commands/commands.hpp"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "agent/attach/hook_neighbours.hpp"
#include "agent/base/clock.hpp"
#include "agent/base/error.hpp"
#include "agent/commands/show.hpp"
#include "agent/commands/sight.hpp"
#include "agent/datapath/open_maps.hpp"
#include "agent/netlink/node_watch.hpp"
#include "agent/netlink/uplinks.hpp"
#include "agent/programs/device_maps.hpp"

namespace lb::agent {
namespace {

using maps::MapSet;

MapSet maps_of(const ShowOptions& options) {
  const maps::Pins pins(options.pins);
  require_sight(pins);
  return open_maps(pins, maps::Access::read);
}

/// Returns the value, or throws StartError with the reason why a map could not be read.
template <class T>
T or_stop(maps::result<T> value) {
  if (!value) {
    throw StartError(fmt::format("cannot read the maps: {}; try again as root", value.error().message()));
  }
  return std::move(*value);
}

std::vector<std::string> pinned_links(const maps::Pins& pins) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(pins.links(), error), end; !error && at != end;
       at.increment(error)) {
    if (!at->is_directory(error)) {
      names.push_back(at->path().filename().string());
    }
  }
  std::ranges::sort(names);
  return names;
}

/// Other programs at the hooks of the served devices that still exist.
std::string others(const maps::Pins& pins) {
  const maps::Fd devices(bpf_obj_get(pins.map("lb_devices").c_str()));
  std::vector<std::string> names;
  for (const auto device : devices_in(devices.get())) {
    std::array<char, IF_NAMESIZE> name{};
    if (if_indextoname(device, name.data()) != nullptr) {
      names.emplace_back(name.data());
    }
  }
  return neighbours_text(neighbours_of(names));
}

/// Source addresses for packets to other nodes, the only addresses of the Node that the maps have.
std::vector<k8s::Address> node_addresses(const lb_node& node) {
  std::vector<k8s::Address> addresses(2);
  std::ranges::copy(node.source4, addresses[0].bytes.begin());
  std::ranges::copy(node.source6, addresses[1].bytes.begin());
  std::erase(addresses, k8s::Address{});
  return addresses;
}

std::vector<std::string> served_names(const maps::Pins& pins, const NodeLinks& links) {
  const maps::Fd served(bpf_obj_get(pins.map("lb_devices").c_str()));
  std::vector<std::string> names;
  for (const auto device : uplinks_in(served.get())) {
    if (const auto link = links.find(device); link != links.end()) {
      names.push_back(link->second.device.name);
    }
  }
  return names;
}

/// The served uplinks with their present reasons, or "named".
std::string uplinks(const maps::Pins& pins, const lb_node& node) {
  const auto links = read_network(Routes::followed).links();
  auto names = served_names(pins, links);
  AgentOptions finding;
  finding.uplink_discovery = Discovery::automatic;
  auto uplinks = find_uplinks(links, finding, node_addresses(node));
  std::erase_if(uplinks, [&names](const Uplink& found) { return std::erase(names, found.name) == 0; });
  for (auto& name : names) {
    uplinks.push_back({std::move(name), "named"});
  }
  return uplinks_text(uplinks);
}

std::string status(const ShowOptions& options) {
  const auto maps = maps_of(options);
  Status status;
  status.pins = options.pins;
  status.agent = find_agent(maps::Pins(options.pins), PidWait::a_heartbeat);
  status.now = std::chrono::system_clock::now();
  status.node = maps.node.load(0);
  status.clock = flow_clock_now(status.node.hertz);
  status.links = pinned_links(maps::Pins(options.pins));
  status.uplinks = uplinks(maps::Pins(options.pins), status.node);
  status.others = others(maps::Pins(options.pins));
  const auto kernel = running_kernel();
  status.kernel = kernel.release;
  status.preemption = preemption_of(kernel);
  status.snapshot.outcomes = or_stop(maps.stats());
  status.snapshot.fills = or_stop(table_fills(maps));
  for (const auto& fill : or_stop(flow_fills(maps))) {
    status.snapshot.fills.push_back(fill);
  }
  return show_status(status, options.output);
}

/// The requested services; all if none is named.
std::vector<ServiceView> wanted_services(const MapSet& maps, const ShowOptions& options) {
  auto services = or_stop(read_services(maps));
  if (options.service.empty()) {
    return services;
  }
  services = matching(std::move(services), options.service);
  if (services.empty()) {
    throw StartError(
        fmt::format("no service is called, or begins with, '{}'; see `sluice services`", options.service));
  }
  return services;
}

std::string services(const ShowOptions& options) {
  return show_services(wanted_services(maps_of(options), options), options.output);
}

std::string backends(const ShowOptions& options) {
  const auto maps = maps_of(options);
  const auto services = wanted_services(maps, options);
  std::vector<std::uint32_t> numbers;
  numbers.reserve(services.size());
  for (const auto& service : services) {
    numbers.push_back(service.number);
  }
  std::ranges::sort(numbers);
  const auto all = read_backends(maps, numbers);
  return show_backends(services, options.gone == Gone::show ? BackendViews{all, 0} : present_among(all),
                       options.output);
}

std::string flows(const ShowOptions& options) {
  const auto maps = maps_of(options);
  FlowList list;
  list.now = flow_clock_now(maps.node.load(0).hertz);
  const auto error = read_flows(maps, list.now, [&](const FlowView& flow) {
    ++list.all;
    if (options.limit == 0 || list.flows.size() < options.limit) {
      list.flows.push_back(flow);
    }
  });
  if (error) {
    throw StartError(fmt::format("cannot read the flow tables: {}", error.message()));
  }
  return show_flows(list, or_stop(read_services(maps)), options.output);
}

}  // namespace

std::string run_command(Command command, const ShowOptions& options) {
  switch (command) {
    case Command::status:
      return status(options);
    case Command::services:
      return services(options);
    case Command::backends:
      return backends(options);
    case Command::flows:
      return flows(options);
    case Command::agent:
    case Command::check:
    case Command::cleanup:
    case Command::alive:
    case Command::drain:
      break;
  }
  throw StartError("this command shows nothing");
}

}  // namespace lb::agent
