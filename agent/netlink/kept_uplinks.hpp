// SPDX-License-Identifier: Apache-2.0
// Keeps found uplinks for a while after their addresses and default routes went: a restart of the network's
// configuration takes them away and gives them back, and packets of open flows that meet no hook meanwhile
// would reach the node's own stack, which resets them. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/netlink/uplinks.hpp"

namespace lb::agent {

class KeptUplinks {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds gap{10};

  /// Adds to `found` those uplinks of the last call that still exist as the same device, belong to no bridge
  /// or bond, and are missing for less than the gap, at the positions that they had.
  [[nodiscard]] std::vector<Uplink> joined(std::vector<Uplink> found, const NodeLinks& links, TimePoint now);
  /// Whether the gap of one of them has passed since the last joined().
  [[nodiscard]] bool is_due(TimePoint now) const;

 private:
  std::vector<Uplink> last_;
  std::map<std::string, std::uint32_t> indices_;  ///< interface indices of last_, as far as they existed
  std::map<std::string, TimePoint> missing_;      ///< until when each is kept
};

}  // namespace lb::agent
