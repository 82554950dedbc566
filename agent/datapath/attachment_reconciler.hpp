// SPDX-License-Identifier: Apache-2.0
// Keeps the hooks attached to the existing devices, checks that they run, and reports other programs at the
// same hooks.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/datapath/datapath.hpp"
#include "agent/datapath/served_devices.hpp"
#include "agent/netlink/node_watch.hpp"
#include "agent/observe/metrics.hpp"

namespace lb::agent {

/// Depth of a periodic check; every few checks, a thorough one checks more.
enum class CheckDepth : std::uint8_t { usual, thorough };

class AttachmentReconciler {
 public:
  /// All referenced objects must outlive this. `checked` is called after each check, for other checks with
  /// the same period.
  AttachmentReconciler(boost::asio::io_context& context, Datapath& datapath, const NodeWatch& node,
                       const ServedDevices& served, Metrics& metrics,
                       std::function<void(CheckDepth depth)> checked);

  /// Attaches the hooks to the present devices.
  AttachReport attach();
  /// Calls attach() again if a device was added, removed or changed, or other devices are served.
  void follow_devices();

  /// Starts the periodic checks.
  void start();

 private:
  void heal();
  void reattach_idle_hooks();
  void check_neighbours();
  void report(const Restored& restored, std::string& failure);
  void report_declined();

  boost::asio::steady_timer timer_;
  Datapath& datapath_;
  const NodeWatch& node_;
  const ServedDevices& served_;
  Metrics& metrics_;
  std::function<void(CheckDepth depth)> checked_;
  std::map<std::uint32_t, NetDevice> devices_;  ///< devices at the last attach()
  std::vector<std::string> uplinks_;            ///< uplinks at the last attach()
  std::vector<Device> pods_;                    ///< pods' devices at the last attach()
  std::uint64_t filter_changes_ = 0;            ///< value at the last check
  std::vector<std::string> declined_;           ///< last logged messages
  std::string heal_failure_;                    ///< last logged failure of restore()
  std::string reattach_failure_;                ///< last logged failure of reattach_idle_hooks()
  std::string neighbours_;                      ///< last logged neighbours
  unsigned checks_ = 0;
};

}  // namespace lb::agent
