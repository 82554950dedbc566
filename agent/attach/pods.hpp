// SPDX-License-Identifier: Apache-2.0
// Selects the host ends of pods' devices, and attaches programs to them. There may be hundreds that change
// often, so only devices that are new, removed or detached are touched.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/attach/hooks.hpp"
#include "agent/netlink/node_network.hpp"

namespace lb::agent {

/// The pods' devices that the options name, by name or by bridge; never an uplink, or a device without
/// Ethernet headers. Sorted by index.
[[nodiscard]] std::vector<Device> pod_devices(const std::map<std::uint32_t, NetDevice>& devices,
                                              const AgentOptions& options);

class PodHooks {
 public:
  /// Attaches to devices without programs and detaches from those that are no longer pods' devices. Reports
  /// changes and failures.
  void attach(Links& links, const AttachPlan& plan, AttachReport& report);
  /// Checks that all programs are still attached: one system call each by TCX. The next attach() reattaches
  /// the others.
  [[nodiscard]] bool intact(FilterChanges filters);
  /// Checks that all links still have their pins; the next attach() pins the others.
  [[nodiscard]] bool pinned(const Links& links);

  void add_pins(std::set<std::string>& pins) const;
  void add_indices(std::set<std::uint32_t>& indices) const;

 private:
  /// Ids of the attached programs; 0: must be attached.
  struct AttachedPrograms {
    std::uint32_t in = 0;
    std::uint32_t out = 0;
    [[nodiscard]] bool whole() const { return in != 0 && out != 0; }
  };

  void detach_removed(Links& links, const AttachPlan& plan);

  std::map<std::uint32_t, AttachedPrograms> hooked_;
  TcAttachment by_ = TcAttachment::tcx;
};

}  // namespace lb::agent
