// SPDX-License-Identifier: Apache-2.0
// lb_frontends: maps an address and port to a service number. Each entry also counts its address as a
// service's, and reserves a node port from source NAT.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "agent/tables/address_table.hpp"
#include "agent/tables/reserved_ports.hpp"
#include "agent/tables/table_keys.hpp"
#include "maps/abi/abi.h"
#include "maps/map.hpp"
#include "maps/mirror.hpp"

namespace lb::agent {

class FrontendTable {
 public:
  /// All arguments must outlive this. Only counts addresses; the caller writes them.
  FrontendTable(maps::Table<lb_frontend_key, lb_frontend>& table, AddressTable& addresses,
                ReservedPorts& ports)
      : entries_(table), addresses_(addresses), ports_(ports) {}

  /// Reads the pinned map, and counts its addresses and node ports. Errors are the map's.
  [[nodiscard]] maps::error_code load();
  /// Writes one entry if it differs. An entry of another service moves to `value.service`, unless it was
  /// moved away from that service before: then that service gets it back when the other one removes it.
  /// Errors are the map's; is_full() recognizes those of a full map.
  [[nodiscard]] maps::error_code put(const lb_frontend_key& key, const lb_frontend& value);
  /// Removes the entry that `service` has put, or moves it back to the service from which it was taken.
  [[nodiscard]] maps::error_code remove(const lb_frontend_key& key, std::uint32_t service);

  [[nodiscard]] bool has_room() const noexcept { return entries_.entries().size() < limit(); }
  [[nodiscard]] bool contains(const lb_frontend_key& key) const { return entries_.entries().contains(key); }

  /// Restores entries that other programs changed; returns their number.
  [[nodiscard]] maps::result<std::size_t> repair() { return entries_.repair(); }
  [[nodiscard]] const auto& entries() const noexcept { return entries_.entries(); }
  [[nodiscard]] std::uint32_t limit() const noexcept { return entries_.limit(); }

 private:
  /// Services from which an entry was taken and that have not removed it yet, oldest first. A large service
  /// is removed in parts; meanwhile another service may already have an entry that the plan gives it.
  using Former = std::vector<lb_frontend>;

  [[nodiscard]] maps::error_code write(const lb_frontend_key& key, const lb_frontend& value);
  /// Returns nullptr if the entry never belonged to that service, or does so now.
  [[nodiscard]] lb_frontend* find_former(const lb_frontend_key& key, std::uint32_t service);
  void forget_former(const lb_frontend_key& key, std::uint32_t service);
  void count_node_port(const lb_frontend_key& key, int change);

  maps::Mirror<lb_frontend_key, lb_frontend> entries_;
  AddressTable& addresses_;
  ReservedPorts& ports_;
  boost::unordered_flat_map<lb_frontend_key, Former, maps::HashBytes, maps::EqualBytes> former_;
};

}  // namespace lb::agent
