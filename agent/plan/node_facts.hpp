// SPDX-License-Identifier: Apache-2.0
// The node as planning sees it, joined from the parts that Nodes, devices and configuration report. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/plan/plan.hpp"

namespace lb::agent {

/// What a report has changed.
struct NodeChange {
  k8s::LabelKeys own_labels;            ///< keys
  k8s::LabelKeys peer_labels;           ///< keys, of the Node `peer`, or of all if that is empty
  std::string peer;                     ///< the Node's name
  bool all_peer_labels = false;         ///< which labels of other Nodes are known is known for the first time
  bool zone = false;                    ///< of this node
  bool primary = false;                 ///< the Node's addresses for node ports
  std::vector<k8s::Address> addresses;  ///< that came or went, sorted
  bool broadcasts = false;
  bool api_servers = false;
  [[nodiscard]] bool is_empty() const {
    return own_labels.empty() && peer_labels.empty() && !all_peer_labels && !zone && !primary &&
           addresses.empty() && !broadcasts && !api_servers;
  }
};

/// The lists of the view are sorted, and have each value once.
class NodeFacts {
 public:
  /// `name`: as in NodeView; `pod_ranges`: of the whole cluster, as configured.
  NodeFacts(std::string name, std::vector<k8s::Prefix> pod_ranges);

  [[nodiscard]] const NodeView& view() const noexcept { return view_; }

  NodeChange set(k8s::Node node);
  /// The own Node's last state is kept (SEM-73).
  NodeChange erase(const std::string& name);
  /// From now on only these labels of other Nodes are known.
  NodeChange labels_known(const k8s::LabelKeys& keys);
  /// Whether these labels of other Nodes are known.
  [[nodiscard]] bool knows(const k8s::LabelKeys& keys) const;

  /// Addresses of this node's devices, in addition to those of its Node object (REL-51).
  NodeChange set_addresses(std::vector<k8s::Address> addresses);
  /// Broadcast addresses of this node's subnets, in addition to those of pods' ranges (REL-121).
  NodeChange set_broadcasts(std::vector<k8s::Address> addresses);
  /// Addresses of the API servers as configured, and the endpoints of their Service (REL-51).
  NodeChange set_api_servers(std::vector<ListeningAddress> configured);
  NodeChange set_api_endpoints(std::vector<ListeningAddress> endpoints);

 private:
  NodeChange set_own(k8s::Node node);
  NodeChange set_peer(k8s::Node node);
  void join_addresses(NodeChange& change);
  void join_broadcasts(NodeChange& change);
  void join_api_servers(NodeChange& change);

  NodeView view_;
  std::vector<k8s::Prefix> pod_ranges_;
  std::vector<k8s::Address> device_addresses_;
  std::vector<k8s::Address> device_broadcasts_;
  std::vector<ListeningAddress> configured_api_servers_;
  std::vector<ListeningAddress> api_endpoints_;
  std::optional<k8s::LabelKeys> known_labels_;  ///< of other Nodes; nullopt: all reported ones
};

}  // namespace lb::agent
