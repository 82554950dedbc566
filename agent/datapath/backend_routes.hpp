// SPDX-License-Identifier: Apache-2.0
// Looks up the routes to the backends that external clients may get, and reports devices on them without a
// program of ours: replies that pass there are never translated back, and no counter shows it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <memory>

#include "agent/datapath/coexistence.hpp"
#include "agent/datapath/served_devices.hpp"
#include "agent/netlink/node_watch.hpp"
#include "agent/netlink/route_lookup.hpp"
#include "agent/netlink/unserved_devices.hpp"
#include "agent/plan/cluster.hpp"
#include "agent/plan/outside_backends.hpp"

namespace lb::agent {

class BackendRoutes {
 public:
  /// All references must outlive this.
  struct Sources {
    const Cluster& cluster;
    const NodeWatch& node;
    const ServedDevices& served;
  };
  BackendRoutes(boost::asio::io_context& context, Sources sources, Coexistence& coexistence);

  /// Call when plans, devices or served devices have changed: the next check() starts a new round.
  void note_change() noexcept { changed_ = true; }
  /// Starts a round if something has changed since the last one; the round continues in turns of some
  /// milliseconds. Call every few seconds: the more routes a round looked up, the more of these calls pass
  /// before the next one.
  void check();

  [[nodiscard]] const UnservedByDevice& found() const noexcept { return found_; }

 private:
  /// The state of one round.
  struct Round {
    UnservedDevices devices;
    OutsideBackends backends;
    UnservedByDevice found;
    std::size_t asked = 0;
  };

  void begin();
  [[nodiscard]] std::optional<UnservedDevice> unserved_at(const OutsideBackends::Backend& backend) const;
  void take_turn();
  void end();

  boost::asio::io_context& context_;
  Sources sources_;
  Coexistence& coexistence_;
  RouteLookup routes_;
  std::unique_ptr<Round> round_;  ///< null: no round is under way
  UnservedByDevice found_;
  UnservedReport report_;
  bool changed_ = true;
  std::size_t pause_ = 0;  ///< number of calls of check() before another round may start
};

}  // namespace lb::agent
