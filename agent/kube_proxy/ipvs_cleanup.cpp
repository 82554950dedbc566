// SPDX-License-Identifier: Apache-2.0
// Handles connections first, then services, the device, and, once no rule refers to them, the sets.
#include "agent/kube_proxy/ipvs_cleanup.hpp"

#include <fmt/format.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ranges>
#include <span>
#include <string_view>
#include <utility>

#include "agent/base/system_error.hpp"
#include "agent/kube_proxy/ipvs_services.hpp"
#include "agent/netlink/netlink.hpp"
#include "agent/netlink/tuple_filter.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;

/// kube-proxy sets it to 1: connections without a server then end at once, together with their conntrack
/// entries.
constexpr const char* expire_setting = "/proc/sys/net/ipv4/vs/expire_nodest_conn";

std::vector<VirtualService> list_services() {
  std::vector<VirtualService> services;
  std::error_code ignored;
  // Querying IPVS by its name would load the module.
  if (!std::filesystem::exists("/sys/module/ip_vs", ignored)) {
    return services;
  }
  if (const auto ipvs = Ipvs::open()) {
    static_cast<void>(ipvs->list_services([&](const auto&, netlink::Bytes body) {
      if (const auto service = virtual_service_of(ipvs_service_in(body))) {
        services.push_back(*service);
      }
    }));
  }
  return services;
}

IpvsState read_state() {
  auto sets = list_ip_sets();
  return {ipvs_device_addresses(), list_services(), sets ? std::move(*sets) : std::vector<IpSet>()};
}

bool has_device() { return ::if_nametoindex(ipvs_device) != 0; }

error_code remove_device() {
  const maps::Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  netlink::Request request(RTM_DELLINK, netlink::Wanted::one, ifinfomsg{});
  request.add(IFLA_IFNAME, std::string_view(ipvs_device));
  return netlink::ask(socket.get(), std::move(request), [](const auto&, netlink::Bytes) {});
}

/// Whether connections outlive their servers, or the sysctl can be changed so.
bool can_outlive() {
  int value = 0;
  return (std::ifstream(expire_setting) >> value && value == 0) || ::access(expire_setting, W_OK) == 0;
}

void let_outlive() { std::ofstream(expire_setting) << "0"; }

/// The tuples of both directions as packets arrive. IPVS would begin a new entry for such a packet while
/// conntrack has none.
std::vector<TrackedTuple> tuples_of(std::span<const IpvsConnection> connections, ConntrackTable& conntrack) {
  std::vector<TrackedTuple> tuples;
  for (const auto& each : connections) {
    const auto tracked = conntrack.find(each.requests);
    if (!tracked) {
      continue;
    }
    tuples.push_back(tracked->original);
    tuples.push_back(tracked->reply);
  }
  return tuples;
}

void note(std::vector<std::string>& problems, const std::string& what, const error_code& error) {
  if (error) {
    problems.push_back(fmt::format("{}: {}", what, error.message()));
  }
}

}  // namespace

IpvsCleanup::IpvsCleanup() : state_(read_state()), removal_(plan_ipvs_removal(state_)) {
  std::ifstream text("/proc/thread-self/net/ip_vs_conn");
  connections_ = carried_by(removal_, read_ipvs_connections(text));
}

std::vector<std::string> IpvsCleanup::leftovers() const {
  std::vector<std::string> found;
  found.reserve(removal_.services.size() + removal_.sets.size() + 1);
  for (const auto& service : removal_.services) {
    found.push_back(virtual_service_text(service));
  }
  if (has_device()) {
    found.push_back(fmt::format("device {}", ipvs_device));
  }
  for (const auto& set : removal_.sets) {
    found.push_back(fmt::format("IP set {}", set));
  }
  return found;
}

std::vector<std::string> IpvsCleanup::would_end() const {
  std::vector<std::string> ends;
  auto conntrack = Conntrack::open();
  std::string why_none;
  if (!conntrack) {
    why_none = fmt::format("conntrack cannot be asked: {}", conntrack.error().message());
  }
  if (!can_outlive()) {
    why_none = "set net.ipv4.vs.expire_nodest_conn to 0 on the node: it is read-only here";
  }
  for (const auto& each : connections_) {
    if (each.requests.protocol == LB_UDP) {
      continue;
    }
    const auto why = why_none.empty() ? why_not_handed(each, state_.bound, *conntrack) : why_none;
    if (!why.empty()) {
      ends.push_back(fmt::format("{} ({})", connection_text(each.requests), why));
    }
  }
  return ends;
}

std::size_t IpvsCleanup::hand_over_connections(std::vector<std::string>& problems) const {
  std::size_t handed = 0;
  auto conntrack = Conntrack::open();
  if (!conntrack || connections_.empty()) {
    return handed;
  }
  let_outlive();
  auto filter = NfTupleFilter::open();
  const auto can = [&](const auto& each) { return why_not_handed(each, state_.bound, *conntrack).empty(); };
  for (std::size_t at = 0; at < connections_.size(); at += max_dropped_connections) {
    std::vector<IpvsConnection> batch;
    std::ranges::copy_if(std::span(connections_).subspan(at) | std::views::take(max_dropped_connections),
                         std::back_inserter(batch), can);
    const DroppedPackets while_handed(filter ? &*filter : nullptr, tuples_of(batch, *conntrack));
    for (const auto& each : batch) {
      const auto error = hand_over_ipvs(each, *conntrack);
      note(problems, connection_text(each.requests), error);
      handed += error ? 0 : 1;
    }
  }
  return handed;
}

std::size_t IpvsCleanup::remove_services(std::vector<std::string>& problems) const {
  const auto handed = hand_over_connections(problems);
  if (!removal_.services.empty()) {
    const auto ipvs = Ipvs::open();
    for (const auto& service : removal_.services) {
      note(problems, virtual_service_text(service), ipvs ? ipvs->remove(service) : ipvs.error());
    }
  }
  if (has_device()) {
    note(problems, ipvs_device, remove_device());
  }
  return handed;
}

void IpvsCleanup::remove_sets(std::vector<std::string>& problems) const {
  for (const auto& set : removal_.sets) {
    note(problems, fmt::format("IP set {}", set), destroy_ip_set(set));
  }
}

}  // namespace lb::agent
