// Which devices are served now, as named or as found, and why: decided again whenever the node's network or
// its Node object has changed.
#pragma once

#include <string>
#include <vector>

#include "agent/attach/hooks.hpp"
#include "agent/netlink/node_watch.hpp"
#include "agent/netlink/uplinks.hpp"
#include "agent/options/config.hpp"

namespace lb::agent {

/// Routes matter where devices are found by them.
[[nodiscard]] Routes wanted_routes(const AgentOptions& options);

class ServedDevices {
 public:
  /// What is referred to must outlive this.
  ServedDevices(const AgentOptions& options, const NodeWatch& node);

  /// Decides, by the own Node's InternalIPs and ExternalIPs too, and logs what it finds to be an uplink or
  /// ceases to. While the kernel is asked again, all stays as it was. True: others serve than before.
  bool decide(const std::vector<k8s::Address>& node_addresses);
  /// What decide() last logged; empty: nothing.
  [[nodiscard]] const std::vector<k8s::Address>& node_addresses() const noexcept { return node_addresses_; }

  [[nodiscard]] const std::vector<std::string>& uplinks() const noexcept { return names_; }
  /// By interface index, each once.
  [[nodiscard]] const std::vector<Device>& pods() const noexcept { return pods_; }

 private:
  void report(const std::vector<Uplink>& found);

  const AgentOptions& options_;
  const NodeWatch& node_;
  std::vector<k8s::Address> node_addresses_;
  std::vector<Uplink> found_;
  std::vector<std::string> names_;  ///< of the same
  std::vector<Device> pods_;
};

}  // namespace lb::agent
