// Detects and reports what else on this node limits the agent: kube-proxy's rules, pods' network namespaces
// that it cannot enter, ports that others hold, and a missing Node object.
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

class Coexistence {
 public:
  /// What is referred to must outlive this.
  Coexistence(const AgentOptions& options, Datapath& datapath, Metrics& metrics);

  /// Pods' network namespaces come and go with their devices: the next check must list them again.
  void devices_changed() noexcept { devices_changed_ = true; }
  /// Are there namespaces of pods whose connected UDP sockets will not be closed?
  void check_reach(const std::map<std::uint32_t, NetDevice>& devices,
                   const std::vector<std::string>& uplinks);

  /// Reports whether kube-proxy's rules exist, if that has changed: --drop-unallocated would drop what they
  /// serve (choice A). Without that option it does not look.
  [[nodiscard]] std::optional<KubeProxy> look_for_kube_proxy();

  /// How many IPsec policies cover packets that leave this node.
  void set_xfrm(std::size_t policies);
  /// Ports that another process holds, in words; empty: none.
  void set_ports(std::string ports);
  /// The same of what is wrong with the configuration file.
  void set_config(std::string config);
  /// The same of devices that lead to backends and are not served.
  void set_unserved(std::string devices);
  /// The same of what keeps conntrack from tracking.
  void set_tracking(std::string tracking);
  /// The same of uplinks that are not found.
  void set_uplinks(std::string uplinks);
  /// The same of what is wrong with the own Node. Is it news?
  [[nodiscard]] bool set_node(std::string node);

 private:
  void report();
  bool replace(std::string& text, std::string now);

  const AgentOptions& options_;
  Datapath& datapath_;
  Metrics& metrics_;
  bool devices_changed_ = false;  ///< since the last look at what leads to pods
  std::string lacks_;             ///< of reach, as it was said last
  std::string ports_;
  std::string node_;
  std::string config_;
  std::string uplinks_;
  std::string unserved_;
  std::string tracking_;
  KubeProxyRules rules_;
  std::size_t xfrm_ = 0;    ///< IPsec policies
  std::string kube_proxy_;  ///< by what means its rules are there; empty: they are not
};

}  // namespace lb::agent
