// SPDX-License-Identifier: Apache-2.0
// Devices that lead to backends whose replies no program of ours sees, and the messages about them. If such a
// backend is chosen for an external client, the client's address is kept, and the backend's replies are never
// translated back. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/netlink/route_lookup.hpp"
#include "agent/netlink/uplinks.hpp"

namespace lb::agent {

/// The interface indices of these uplinks, without devices that have no Ethernet headers. Empty if one of
/// them belongs to a VRF, whose routing table is not queried.
[[nodiscard]] std::set<std::uint32_t> served_uplinks(const NodeLinks& links,
                                                     const std::vector<std::string>& uplinks);

/// An unserved device, or the part of an uplink's traffic that no program of ours sends.
struct UnservedDevice {
  std::string label;          ///< "eth1", "eth0 (encap)"
  bool encapsulates = false;  ///< an uplink with routes that add their own headers
};

class UnservedDevices {
 public:
  /// `uplinks`: names of the served uplinks; `pods`: interface indices. If there is no served uplink, or an
  /// uplink belongs to a VRF, whose routing table is not queried, no device counts as unserved.
  UnservedDevices(const NodeLinks& links, const std::vector<std::string>& uplinks,
                  const std::set<std::uint32_t>& pods);

  /// The device of the next hop, if no program of ours is on it. nullopt for a pod or virtual machine of this
  /// node: its replies pass the stack and then an uplink. A route that adds its own headers (encap) is
  /// handled by the stack alone, whatever its device.
  [[nodiscard]] std::optional<UnservedDevice> at(const NextHop& hop) const;

 private:
  std::map<std::uint32_t, std::string> unserved_;
  std::map<std::uint32_t, std::string> uplinks_;  ///< served uplinks
  std::set<std::uint32_t> guests_;  ///< devices to this node's pods and virtual machines, except by gateway
};

/// Backends reached by one device.
struct UnservedBackends {
  std::size_t count = 0;
  std::string example;        ///< "default/web (10.244.2.10)"
  bool encapsulates = false;  ///< as in UnservedDevice
  bool operator==(const UnservedBackends&) const = default;
};
using UnservedByDevice = std::map<std::string, UnservedBackends>;  ///< by label

/// "unserved devices: eth1 (3 backends)", for `status`; lists at most three devices.
[[nodiscard]] std::string unserved_text(const UnservedByDevice& found);

struct LogMessage {
  enum class Level : std::uint8_t { info, warning };
  Level level = Level::warning;
  std::string text;
};

/// The log messages: when routes begin to lead to backends by a device, and when that ends; at most once a
/// minute for each device, however often routes change.
class UnservedReport {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::minutes pause{1};

  /// Call after each check, also without changes: delayed messages are returned then.
  [[nodiscard]] std::vector<LogMessage> messages(const UnservedByDevice& found, TimePoint now);

 private:
  struct WarningState {
    bool is_unserved = false;
    TimePoint at;  ///< when the warning was logged
  };
  std::map<std::string, WarningState> warnings_;
};

}  // namespace lb::agent
