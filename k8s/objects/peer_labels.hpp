// SPDX-License-Identifier: Apache-2.0
// The labels of other Nodes that Services need: those of their topology keys that slices do not contain
// (choice H).
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "k8s/objects/model.hpp"

namespace lb::k8s {

/// The labels that may be topology keys; nullopt: any.
using AllowedLabels = std::optional<LabelKeys>;

/// Moves topology keys that are not allowed to refused_topology_keys. A tenant who may annotate a Service
/// could otherwise make every agent watch all Nodes for any label.
void refuse_topology_keys(Service& service, const AllowedLabels& allowed);

/// The topology keys of a Service that only the endpoint's Node has; empty for a Service that is not
/// programmed.
[[nodiscard]] LabelKeys peer_labels(const Service& service);

/// The labels that all Services together need.
class AskedLabels {
 public:
  explicit AskedLabels(AllowedLabels allowed = {}) : allowed_(std::move(allowed)) {}

  void set(const Service& service);
  void erase(const ObjectKey& service) { services_.erase(service); }
  [[nodiscard]] LabelKeys all() const;

 private:
  AllowedLabels allowed_;
  std::map<ObjectKey, LabelKeys> services_;  ///< services that need labels
};

/// Removes all labels of a Node except these.
void keep_labels(Node& node, const LabelKeys& keys);

}  // namespace lb::k8s
