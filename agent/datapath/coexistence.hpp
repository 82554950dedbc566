// SPDX-License-Identifier: Apache-2.0
// Detects and reports other software and conditions that limit the agent on this node: kube-proxy's rules,
// pods' network namespaces that it cannot enter, ports held by others, and a missing Node object.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "agent/datapath/datapath.hpp"
#include "agent/kube_proxy/presence.hpp"
#include "agent/netlink/node_network.hpp"
#include "agent/observe/metrics.hpp"
#include "agent/options/config.hpp"

namespace lb::agent {

/// Which new flows, of those that a program would redirect, are refused because of IPsec policies.
enum class XfrmRefusal : std::uint8_t {
  covered,  ///< those that a policy covers
  all       ///< all: the table of the policies' ranges is incomplete
};

class Coexistence {
 public:
  /// All references must outlive this.
  Coexistence(const AgentOptions& options, Datapath& datapath, Metrics& metrics);

  /// Pods' network namespaces are added and removed with their devices: the next check must list them again.
  void devices_changed() noexcept { devices_changed_ = true; }
  /// Checks whether connected UDP sockets of some pods' namespaces cannot be closed.
  void check_reach(const std::map<std::uint32_t, NetDevice>& devices,
                   const std::vector<std::string>& uplinks);

  /// Reports whether kube-proxy's rules exist, if that has changed: --drop-unallocated would drop the packets
  /// that they serve (choice A). Does not check without that option.
  [[nodiscard]] std::optional<KubeProxy> check_kube_proxy();

  /// Sets the number of IPsec policies that cover packets leaving this node.
  void set_xfrm(std::size_t policies);
  void set_xfrm_refusal(XfrmRefusal refusal);
  /// Sets the text about ports that another process holds; empty: none.
  void set_ports(std::string ports);
  /// Sets the text about errors in the configuration file; likewise.
  void set_config(std::string config);
  /// Sets the text about devices that lead to backends and are not served; likewise.
  void set_unserved(std::string devices);
  /// Sets the text about addresses whose node ports are not served, and logs it; likewise.
  void set_addresses(std::string addresses);
  /// Sets the text about clients whose addresses are not kept; likewise.
  void set_clients(std::string clients);
  /// Sets the text about obstacles to conntrack's tracking; likewise.
  void set_tracking(std::string tracking);
  /// Sets the text about missing uplinks; likewise.
  void set_uplinks(std::string uplinks);
  /// Sets the text about a missing own Node; likewise. Returns whether it has changed.
  [[nodiscard]] bool set_node(std::string node);

 private:
  void report();
  bool replace(std::string& text, std::string now);

  const AgentOptions& options_;
  Datapath& datapath_;
  Metrics& metrics_;
  bool devices_changed_ = false;  ///< since the last check_reach()
  std::string lacks_;             ///< last reported text about pods' namespaces
  std::string ports_;
  std::string node_;
  std::string config_;
  std::string uplinks_;
  std::string unserved_;
  std::string clients_;
  std::string addresses_;
  std::string tracking_;
  KubeProxyRules rules_;
  std::size_t xfrm_ = 0;  ///< number of IPsec policies
  XfrmRefusal xfrm_refusal_ = XfrmRefusal::covered;
  std::string kube_proxy_;  ///< how kube-proxy's rules are installed; empty: they are not
};

}  // namespace lb::agent
