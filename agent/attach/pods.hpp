// Selects the host ends of pods' devices, and attaches programs to them. There are hundreds that come and go,
// so only devices that are new, gone or detached are touched.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/attach/hooks.hpp"
#include "agent/netlink/node_network.hpp"

namespace lb::agent {

/// By name or by bridge, as the options say; never an uplink, or one without Ethernet headers. In the
/// order of their indices.
[[nodiscard]] std::vector<Device> pod_devices(const std::map<std::uint32_t, NetDevice>& devices,
                                              const AgentOptions& options);

class PodHooks {
 public:
  /// Attaches where that is not done yet and lets go of devices that are no pods' any more. Reports what it
  /// changed and what failed.
  void attach(Links& links, const AttachPlan& plan, AttachReport& report);
  /// Looks whether all programs still run: one system call each by TCX. What does not is attached by the next
  /// attach().
  [[nodiscard]] bool intact(Filters filters);
  /// Looks whether all links still have their pins; likewise.
  [[nodiscard]] bool pinned(const Links& links);

  void add_pins(std::set<std::string>& pins) const;
  void add_indices(std::set<std::uint32_t>& indices) const;

 private:
  /// Ids of the programs that run; 0: attach it.
  struct AttachedPrograms {
    std::uint32_t in = 0;
    std::uint32_t out = 0;
    [[nodiscard]] bool whole() const { return in != 0 && out != 0; }
  };

  void detach_removed(Links& links, const AttachPlan& plan);

  std::map<std::uint32_t, AttachedPrograms> hooked_;
  TcBy by_ = TcBy::tcx;
};

}  // namespace lb::agent
