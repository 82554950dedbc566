// Which labels of other Nodes the Services need: those of their topology keys that slices do not carry
// (choice H).
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "k8s/objects/model.hpp"

namespace lb::k8s {

/// Which labels may be topology keys; nothing: any.
using AllowedLabels = std::optional<LabelKeys>;

/// Sets aside those of a Service's topology keys that are not allowed. A tenant who may annotate a Service
/// could otherwise make every agent watch all Nodes for any label.
void refuse_topology_keys(Service& service, const AllowedLabels& allowed);

/// Those of a Service's topology keys that only the Node of an endpoint has. None of a Service that is
/// not programmed.
[[nodiscard]] LabelKeys peer_labels(const Service& service);

/// What all Services together ask for.
class AskedLabels {
 public:
  explicit AskedLabels(AllowedLabels allowed = {}) : allowed_(std::move(allowed)) {}

  void set(const Service& service);
  void erase(const ObjectKey& service) { services_.erase(service); }
  [[nodiscard]] LabelKeys all() const;

 private:
  AllowedLabels allowed_;
  std::map<ObjectKey, LabelKeys> services_;  ///< those that ask
};

/// Drops all of a Node's labels but these.
void keep_labels(Node& node, const LabelKeys& keys);

}  // namespace lb::k8s
