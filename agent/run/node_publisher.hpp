// Writes into the maps what concerns this node itself, when it changes: its addresses, the pods' ranges, and
// the ports that source NAT must not use.
#pragma once

#include <optional>
#include <vector>

#include "agent/datapath/served_devices.hpp"
#include "agent/kube_proxy/presence.hpp"
#include "agent/netlink/kernel_ports.hpp"
#include "agent/netlink/node_watch.hpp"
#include "agent/options/config.hpp"
#include "agent/plan/cluster.hpp"
#include "agent/run/intake.hpp"
#include "agent/tables/node_page.hpp"
#include "agent/tables/tables.hpp"

namespace lb::agent {

class NodePublisher {
 public:
  /// What is referred to must outlive this.
  struct Targets {
    Cluster& cluster;
    Tables& tables;
    NodePage& page;
  };
  NodePublisher(const AgentOptions& options, const NodeWatch& node, const ServedDevices& served,
                const Intake& intake, Targets targets);

  /// The node's addresses, to all who ask for them, and the ports.
  void apply_addresses();
  /// Whether the Node object's addresses are others than those that were applied.
  [[nodiscard]] bool addresses_changed() const { return targets_.cluster.node().primary != primary_; }
  /// Holds from the next apply_ranges() on.
  void set_kube_proxy(KubeProxy kube_proxy);
  /// What IPsec policies encrypt or block; likewise.
  void set_xfrm(std::vector<k8s::Prefix> ranges);
  /// Whose addresses are pods', what is behind IPsec policies, and where ClusterIPs come from.
  void apply_ranges();
  /// An operator may change them at any time, and no event says so.
  void apply_kernel_ports();

  /// Where health checks are answered.
  [[nodiscard]] std::vector<k8s::Address> health_addresses() const;

 private:
  const AgentOptions& options_;
  const NodeWatch& node_;
  const ServedDevices& served_;
  const Intake& intake_;
  Targets targets_;
  KubeProxy kube_proxy_ = KubeProxy::absent;
  std::vector<k8s::Prefix> xfrm_;
  std::vector<k8s::Address> primary_;        ///< as addresses were last applied with
  std::optional<KernelPorts> kernel_ports_;  ///< as last written
};

}  // namespace lb::agent
