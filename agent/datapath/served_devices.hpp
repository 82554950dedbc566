// SPDX-License-Identifier: Apache-2.0
// The devices that are served now, named or found, and the reasons: decided again whenever the node's network
// or its Node object has changed.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "agent/attach/hooks.hpp"
#include "agent/netlink/kept_uplinks.hpp"
#include "agent/netlink/node_watch.hpp"
#include "agent/netlink/uplinks.hpp"
#include "agent/options/config.hpp"

namespace lb::agent {

/// Routes are followed only if devices are found by them.
[[nodiscard]] Routes wanted_routes(const AgentOptions& options);

class ServedDevices {
 public:
  /// All references must outlive this.
  ServedDevices(const AgentOptions& options, const NodeWatch& node);

  using TimePoint = KeptUplinks::TimePoint;

  /// Decides which devices are served, also by the own Node's InternalIPs and ExternalIPs, and logs changes
  /// of found uplinks. During a new dump of the network nothing changes. Returns whether other devices are
  /// served than before.
  bool decide(const std::vector<k8s::Address>& node_addresses, TimePoint now);
  /// Whether decide() may find others now only because time has passed: an uplink is kept for some seconds.
  [[nodiscard]] bool is_due(TimePoint now) const { return kept_.is_due(now); }
  /// The argument of the last decide(); empty before the first call.
  [[nodiscard]] const std::vector<k8s::Address>& node_addresses() const noexcept { return node_addresses_; }

  [[nodiscard]] const std::vector<std::string>& uplinks() const noexcept { return names_; }
  /// The interface indices of the uplinks that exist; see served_uplinks().
  [[nodiscard]] const std::set<std::uint32_t>& uplink_indices() const noexcept { return indices_; }
  /// Sorted by interface index, each once.
  [[nodiscard]] const std::vector<Device>& pods() const noexcept { return pods_; }

 private:
  void report(const std::vector<Uplink>& found);

  const AgentOptions& options_;
  const NodeWatch& node_;
  std::vector<k8s::Address> node_addresses_;
  KeptUplinks kept_;
  std::vector<Uplink> found_;
  std::vector<std::string> names_;  ///< names of found_
  std::set<std::uint32_t> indices_;
  std::vector<Device> pods_;
};

}  // namespace lb::agent
