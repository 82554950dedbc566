// Keeps the hooks attached to the devices that exist, checks that they run, and reports which other programs
// are attached beside them.
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

/// Every check is usual; every few, a thorough one looks at more.
enum class CheckDepth : std::uint8_t { usual, thorough };

class AttachmentReconciler {
 public:
  /// What is referred to must outlive this. `checked` is called after each check, for what else must be
  /// checked at as often.
  AttachmentReconciler(boost::asio::io_context& context, Datapath& datapath, const NodeWatch& node,
                       const ServedDevices& served, Metrics& metrics,
                       std::function<void(CheckDepth depth)> checked);

  /// To the devices that there are now.
  AttachReport attach();
  /// The same once more if a device came, went or changed, or others serve than before.
  void follow_devices();

  /// Looks every so often from now on.
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
  std::map<std::uint32_t, NetDevice> devices_;  ///< as hooks were last attached with
  std::vector<std::string> uplinks_;            ///< likewise
  std::vector<Device> pods_;                    ///< likewise
  std::uint64_t filter_changes_ = 0;            ///< as of the last check
  std::vector<std::string> declined_;           ///< as last logged
  std::string heal_failure_;                    ///< as last logged
  std::string reattach_failure_;                ///< likewise
  std::string neighbours_;                      ///< likewise
  unsigned checks_ = 0;
};

}  // namespace lb::agent
