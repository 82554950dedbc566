// SPDX-License-Identifier: Apache-2.0
// Converts options, devices and the Node object to map contents.
#include "agent/run/node_publisher.hpp"

#include <cstdint>
#include <set>
#include <utility>

#include "agent/run/node_policy.hpp"

namespace lb::agent {
namespace {

/// 0.0.0.0 as an IPv4-mapped address.
constexpr k8s::Address any_ipv4{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}};

/// The addresses of devices, without those that the node has by a local route only: a cloud's agent adds such
/// routes for addresses that Services may claim.
std::vector<k8s::Address> device_addresses(const NodeNetwork& network,
                                           const std::vector<NodeAddress>& addresses) {
  std::set<k8s::Address> of_devices;
  for (const auto& [index, link] : network.links()) {
    of_devices.insert(link.addresses.begin(), link.addresses.end());
  }
  std::vector<k8s::Address> plain;
  plain.reserve(addresses.size());
  for (const auto& each : addresses) {
    if (of_devices.contains(each.address)) {
      plain.push_back(each.address);
    }
  }
  return plain;
}

}  // namespace

NodePublisher::NodePublisher(const AgentOptions& options, const NodeWatch& node, const ServedDevices& served,
                             const Intake& intake, Targets targets)
    : options_(options), node_(node), served_(served), intake_(intake), targets_(targets) {}

void NodePublisher::apply_addresses() {
  primary_ = targets_.cluster.node().primary;
  const auto& network = node_.network();
  auto addresses = network.addresses(options_.node_port_addresses, primary_);
  targets_.cluster.set_addresses(device_addresses(network, addresses));
  targets_.cluster.set_broadcasts(network.broadcasts());
  targets_.tables.set_addresses(std::move(addresses));
  const auto sources = network.sources(served_.uplinks());
  targets_.page.set_sources(sources.ipv4, sources.ipv6);
  apply_kernel_ports();
}

void NodePublisher::apply_ranges() {
  auto policy = node_policy_of(options_, targets_.cluster.node().pod_ranges, kube_proxy_);
  auto cluster_ips = intake_.cluster_ip_ranges();
  cluster_ips.insert(cluster_ips.end(), options_.service_cidrs.begin(), options_.service_cidrs.end());
  targets_.tables.set_ranges(LB_POD_RANGES, policy.pods);
  targets_.tables.set_ranges(LB_CLUSTER_IP_RANGES, cluster_ips);
  targets_.tables.set_ranges(LB_XFRM_RANGES, xfrm_);
  policy_ = policy.word;
  publish_policy();
}

Written NodePublisher::publish_policy() {
  const bool is_listed = targets_.tables.has_written(LB_XFRM_RANGES);
  if (policy_) {
    policy_->xfrm = !is_listed ? LB_XFRM_ALL : xfrm_.empty() ? LB_XFRM_NONE : LB_XFRM_LISTED;
    targets_.page.set_node_policy(*policy_);
  }
  return is_listed ? Written::all : Written::some;
}

void NodePublisher::set_kube_proxy(KubeProxy kube_proxy) { kube_proxy_ = kube_proxy; }

void NodePublisher::set_xfrm(std::vector<k8s::Prefix> ranges) { xfrm_ = std::move(ranges); }

void NodePublisher::apply_kernel_ports() {
  auto ports = read_kernel_ports();
  if (kernel_ports_ == ports) {
    return;
  }
  targets_.tables.set_kernel_ports(reserved_bits(source_ports(options_.source_ports, ports), ports));
  kernel_ports_ = std::move(ports);
}

std::vector<UnservedAddress> NodePublisher::unserved_addresses() const {
  if (served_.uplinks().empty()) {
    return {};
  }
  std::set<std::uint32_t> pods;
  for (const auto& pod : served_.pods()) {
    pods.insert(pod.index);
  }
  const auto& network = node_.network();
  return lb::agent::unserved_addresses(network.links(), served_.uplinks(), pods,
                                       network.addresses(options_.node_port_addresses, primary_));
}

std::vector<k8s::Address> NodePublisher::addresses() const {
  std::vector<k8s::Address> addresses;
  for (const auto& each : node_.network().addresses(options_.node_port_addresses, primary_)) {
    addresses.push_back(each.address);
  }
  return addresses;
}

/// If node ports are served on every address, so are health checks, independent of the present addresses.
std::vector<k8s::Address> NodePublisher::health_addresses() const {
  if (options_.node_port_addresses.scope == NodePortScope::all) {
    return {any_ipv4, k8s::Address{}};
  }
  std::vector<k8s::Address> addresses;
  for (const auto& each : node_.network().addresses(options_.node_port_addresses, primary_)) {
    if (each.kind == LB_NODE_PORT_ADDRESS) {
      addresses.push_back(each.address);
    }
  }
  return addresses;
}

}  // namespace lb::agent
