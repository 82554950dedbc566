// SPDX-License-Identifier: Apache-2.0
// The labels of other Nodes that Services need.
#include "k8s/objects/peer_labels.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lb::k8s {

void refuse_topology_keys(Service& service, const AllowedLabels& allowed) {
  if (!allowed) {
    return;
  }
  auto& keys = service.topology_keys;
  const auto is_refused = [&](const std::string& key) {
    return key != any_topology && !allowed->contains(key);
  };
  service.refused_topology_keys.clear();
  std::ranges::copy_if(keys, std::back_inserter(service.refused_topology_keys), is_refused);
  std::erase_if(keys, is_refused);
}

LabelKeys peer_labels(const Service& service) {
  if (service.headless || service.type == ServiceType::external_name) {
    return {};
  }
  LabelKeys keys;
  for (const auto& key : service.topology_keys) {
    if (key != hostname_label && key != zone_label && key != any_topology) {
      keys.insert(key);
    }
  }
  return keys;
}

void AskedLabels::set(const Service& service) {
  auto keys = peer_labels(service);
  if (allowed_) {
    std::erase_if(keys, [this](const std::string& key) { return !allowed_->contains(key); });
  }
  if (!keys.empty()) {
    services_.insert_or_assign(service.key, std::move(keys));
  } else {
    services_.erase(service.key);
  }
}

LabelKeys AskedLabels::all() const {
  LabelKeys all;
  for (const auto& [service, keys] : services_) {
    all.insert(keys.begin(), keys.end());
  }
  return all;
}

void keep_labels(Node& node, const LabelKeys& keys) {
  std::erase_if(node.labels, [&](const auto& label) { return !keys.contains(label.first); });
}

}  // namespace lb::k8s
