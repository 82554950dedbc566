// SPDX-License-Identifier: Apache-2.0
// Writes facts about this node into the maps when they change: its addresses, the pods' ranges, and the ports
// that source NAT must not use.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "agent/datapath/served_devices.hpp"
#include "agent/kube_proxy/presence.hpp"
#include "agent/netlink/kernel_ports.hpp"
#include "agent/netlink/node_watch.hpp"
#include "agent/netlink/unserved_addresses.hpp"
#include "agent/options/config.hpp"
#include "agent/plan/cluster.hpp"
#include "agent/run/intake.hpp"
#include "agent/tables/node_page.hpp"
#include "agent/tables/tables.hpp"

namespace lb::agent {

/// How much of the IPsec policies' ranges is in the table.
enum class Written : std::uint8_t { all, some };

class NodePublisher {
 public:
  /// All references must outlive this.
  struct Targets {
    Cluster& cluster;
    Tables& tables;
    NodePage& page;
  };
  NodePublisher(const AgentOptions& options, const NodeWatch& node, const ServedDevices& served,
                const Intake& intake, Targets targets);

  /// Publishes the node's addresses to the model, the tables and the node page, and the kernel's ports.
  void apply_addresses();
  /// Whether the Node object's addresses differ from the last applied ones.
  [[nodiscard]] bool addresses_changed() const { return targets_.cluster.node().primary != primary_; }
  /// Takes effect at the next apply_ranges().
  void set_kube_proxy(KubeProxy kube_proxy);
  /// Sets the ranges that IPsec policies encrypt or block; takes effect at the next apply_ranges().
  void set_xfrm(std::vector<k8s::Prefix> ranges);
  /// Publishes the ranges of pods, of IPsec policies, and of ClusterIPs.
  void apply_ranges();
  /// Publishes the node's policy again: what the tables hold may have changed by a retry. While they lack a
  /// range of an IPsec policy, programs treat every address as covered.
  Written publish_policy();
  /// Publishes the kernel's ports, which an operator may change at any time without a notification.
  void apply_kernel_ports();

  /// Devices whose addresses serve node ports, and that are not served.
  [[nodiscard]] std::vector<UnservedAddress> unserved_addresses() const;
  /// All addresses of the node.
  [[nodiscard]] std::vector<k8s::Address> addresses() const;
  /// The addresses on which health checks are served.
  [[nodiscard]] std::vector<k8s::Address> health_addresses() const;

 private:
  const AgentOptions& options_;
  const NodeWatch& node_;
  const ServedDevices& served_;
  const Intake& intake_;
  Targets targets_;
  KubeProxy kube_proxy_ = KubeProxy::absent;
  std::vector<k8s::Prefix> xfrm_;
  std::optional<lb_node_policy> policy_;     ///< as last published
  std::vector<k8s::Address> primary_;        ///< primary addresses as last applied
  std::optional<KernelPorts> kernel_ports_;  ///< ports as last written
};

}  // namespace lb::agent
