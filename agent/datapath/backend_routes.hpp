// Looks up the routes to the backends that clients outside may get, and reports devices among them that have
// no program of ours: replies that pass there are never translated back, and no counter shows it.
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
  /// What is referred to must outlive this.
  struct Sources {
    const Cluster& cluster;
    const NodeWatch& node;
    const ServedDevices& served;
  };
  BackendRoutes(boost::asio::io_context& context, Sources sources, Coexistence& coexistence);

  /// Plans, devices or what serves are others than before: the next look() is a new one.
  void note_change() noexcept { changed_ = true; }
  /// Begins a look if something has changed since the last one; it goes on in turns of some milliseconds. To
  /// be called every few seconds: the more backends a look asked about, the more of these calls pass before
  /// the next.
  void look();

  [[nodiscard]] const UnservedByDevice& found() const noexcept { return found_; }

 private:
  /// One look, from its beginning to its end.
  struct Round {
    UnservedDevices devices;
    OutsideBackends backends;
    UnservedByDevice found;
    std::size_t asked = 0;
  };

  void begin();
  void take_turn();
  void end();

  boost::asio::io_context& context_;
  Sources sources_;
  Coexistence& coexistence_;
  RouteLookup routes_;
  std::unique_ptr<Round> round_;  ///< null: none is under way
  UnservedByDevice found_;
  UnservedReport report_;
  bool changed_ = true;
  std::size_t pause_ = 0;  ///< calls of look() until another may begin
};

}  // namespace lb::agent
