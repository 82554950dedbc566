// SPDX-License-Identifier: Apache-2.0
// All tables that the agent writes from plans, in the order of their dependencies. No policy.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "agent/plan/plan.hpp"
#include "agent/tables/address_table.hpp"
#include "agent/tables/frontend_table.hpp"
#include "agent/tables/id_reclaimer.hpp"
#include "agent/tables/publisher.hpp"
#include "agent/tables/range_table.hpp"
#include "agent/tables/reserved_ports.hpp"
#include "agent/tables/service_table.hpp"
#include "maps/grace.hpp"
#include "maps/mapset.hpp"
#include "maps/sweep.hpp"

namespace lb::agent {

struct TableSet {
  /// The objects to which `of`, `grace` and `sweeper` refer must outlive this. `freed` is called when retired
  /// ids or slots may be reused; `consistent_slots`: slots of a set with consistent selection.
  TableSet(const maps::Store& of, maps::GracePeriod& grace, maps::Sweeper& sweeper,
           std::function<void()> freed, std::uint32_t consistent_slots)
      : store(of),
        addresses(of.addresses),
        ranges(of.ranges),
        reserved_ports(of.reserved),
        frontends(of.frontends, addresses, reserved_ports),
        reclaimer(of, grace, sweeper, std::move(freed)),
        publisher(of, reclaimer, consistent_slots),
        services(of.names, reclaimer) {}
  TableSet(const TableSet&) = delete;
  TableSet& operator=(const TableSet&) = delete;
  ~TableSet() = default;

  /// Notes that backends or frontends of a service port changed. An adopted one without a name may be UDP.
  void note_change(const ServicePortKey& key) {
    udp_changed = udp_changed || key.protocol == LB_UDP || key.name.empty();
  }

  maps::Store store;
  AddressTable addresses;
  RangeTable ranges;
  ReservedPorts reserved_ports;
  FrontendTable frontends;
  IdReclaimer reclaimer;
  Publisher publisher;
  ServiceTable services;
  /// Backends or frontends of UDP changed and Tables has not reported it. True at first: the previous agent
  /// may have ended before it did.
  bool udp_changed = true;
};

}  // namespace lb::agent
