// SPDX-License-Identifier: Apache-2.0
// The node as planning sees it.
#include "agent/plan/node_facts.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "k8s/objects/broadcast.hpp"

namespace lb::agent {
namespace {

std::string zone_of(const Labels& labels) {
  const auto found = std::ranges::find(labels, k8s::zone_label, &Labels::value_type::first);
  return found == labels.end() ? std::string{} : found->second;
}

k8s::LabelKeys changed_keys(const Labels& before, const Labels& after) {
  Labels changed;
  std::ranges::set_symmetric_difference(before, after, std::back_inserter(changed));
  k8s::LabelKeys keys;
  for (auto& [key, value] : changed) {
    keys.insert(std::move(key));
  }
  return keys;
}

template <class Entry>
std::vector<Entry> joined(std::vector<Entry> entries, const std::vector<Entry>& others) {
  entries.insert(entries.end(), others.begin(), others.end());
  std::ranges::sort(entries);
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  return entries;
}

}  // namespace

NodeFacts::NodeFacts(std::string name, std::vector<k8s::Prefix> pod_ranges)
    : pod_ranges_(std::move(pod_ranges)) {
  view_.name = std::move(name);
  NodeChange change;
  join_broadcasts(change);
}

NodeChange NodeFacts::set(k8s::Node node) {
  return node.name == view_.name ? set_own(std::move(node)) : set_peer(std::move(node));
}

NodeChange NodeFacts::set_own(k8s::Node node) {
  NodeChange change;
  if (view_.labels != node.labels) {
    change.own_labels = changed_keys(view_.labels, node.labels);
    const auto zone = zone_of(node.labels);
    change.zone = std::exchange(view_.zone, zone) != zone;
    view_.labels = std::move(node.labels);
  }
  view_.pod_ranges = node.pod_cidrs;
  view_.object_addresses = all_addresses(node);
  if (!view_.object_addresses.empty()) {
    view_.family = view_.object_addresses.front().family() == k8s::Family::ipv4 ? LB_IPV4 : LB_IPV6;
  }
  join_addresses(change);
  join_broadcasts(change);
  auto primary = primary_addresses(node);
  change.primary = primary != view_.primary;
  view_.primary = std::move(primary);
  return change;
}

/// A Node without labels counts as absent.
NodeChange NodeFacts::set_peer(k8s::Node node) {
  NodeChange change;
  auto& labels = view_.peers[node.name];
  change.peer_labels = changed_keys(labels, node.labels);
  labels = std::move(node.labels);
  if (labels.empty()) {
    view_.peers.erase(node.name);
  }
  change.peer = std::move(node.name);
  return change;
}

NodeChange NodeFacts::erase(const std::string& name) {
  NodeChange change;
  const auto found = view_.peers.find(name);
  if (found != view_.peers.end()) {
    change.peer = name;
    change.peer_labels = changed_keys(found->second, {});
    view_.peers.erase(found);
  }
  return change;
}

NodeChange NodeFacts::labels_known(const k8s::LabelKeys& keys) {
  const auto before = std::exchange(known_labels_, keys);
  for (auto& [name, labels] : view_.peers) {
    std::erase_if(labels, [&](const auto& label) { return !keys.contains(label.first); });
  }
  std::erase_if(view_.peers, [](const auto& peer) { return peer.second.empty(); });
  NodeChange change;
  change.all_peer_labels = !before;
  std::ranges::set_symmetric_difference(before.value_or(k8s::LabelKeys{}), keys,
                                        std::inserter(change.peer_labels, change.peer_labels.end()));
  return change;
}

bool NodeFacts::knows(const k8s::LabelKeys& keys) const {
  return !known_labels_ || std::ranges::includes(*known_labels_, keys);
}

NodeChange NodeFacts::set_addresses(std::vector<k8s::Address> addresses) {
  NodeChange change;
  device_addresses_ = std::move(addresses);
  join_addresses(change);
  return change;
}

void NodeFacts::join_addresses(NodeChange& change) {
  const auto before = std::exchange(view_.addresses, joined(view_.object_addresses, device_addresses_));
  std::ranges::set_symmetric_difference(before, view_.addresses, std::back_inserter(change.addresses));
}

NodeChange NodeFacts::set_broadcasts(std::vector<k8s::Address> addresses) {
  NodeChange change;
  device_broadcasts_ = std::move(addresses);
  join_broadcasts(change);
  return change;
}

/// Which subnets pods have is their network plug-in's choice: those of a bridge are a device's of the node,
/// others are often the Node's range, or the cluster's.
void NodeFacts::join_broadcasts(NodeChange& change) {
  std::vector<k8s::Address> last;
  for (const auto* ranges : {&view_.pod_ranges, &pod_ranges_}) {
    for (const auto& range : *ranges) {
      if (const auto broadcast = k8s::broadcast_of(range)) {
        last.push_back(*broadcast);
      }
    }
  }
  auto all = joined(std::move(last), device_broadcasts_);
  change.broadcasts = all != view_.broadcasts;
  view_.broadcasts = std::move(all);
}

NodeChange NodeFacts::set_api_servers(std::vector<ListeningAddress> configured) {
  NodeChange change;
  configured_api_servers_ = std::move(configured);
  join_api_servers(change);
  return change;
}

NodeChange NodeFacts::set_api_endpoints(std::vector<ListeningAddress> endpoints) {
  NodeChange change;
  api_endpoints_ = std::move(endpoints);
  join_api_servers(change);
  return change;
}

void NodeFacts::join_api_servers(NodeChange& change) {
  auto all = joined(configured_api_servers_, api_endpoints_);
  change.api_servers = all != view_.api_servers;
  view_.api_servers = std::move(all);
}

}  // namespace lb::agent
