// SPDX-License-Identifier: Apache-2.0
// lb_addresses: the kind of each address, for packets that no frontend matches. It contains the node's own
// addresses and those of services.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "agent/netlink/node_address.hpp"
#include "maps/abi/abi.h"
#include "maps/map.hpp"
#include "maps/mirror.hpp"

namespace lb::agent {

/// Precedence of kinds: the node's own address, then ClusterIP, then another address of a service. The last
/// entries of the table are only for the node's own (agent/tables/node_reserve.hpp). set_node()
/// and count() only record facts; only load(), the write functions and repair() make system calls.
class AddressTable {
 public:
  /// `table` must outlive this.
  explicit AddressTable(maps::Table<lb_address_key, lb_address>& table) : entries_(table) {}

  /// Reads the pinned map; writes nothing. Errors are the map's.
  [[nodiscard]] maps::error_code load() { return entries_.load(); }

  /// Sets the complete list of the node's own addresses, in any order; written by the next write().
  void set_node(const std::vector<NodeAddress>& addresses);
  /// Adds `change` (which may be negative) to the number of frontends at this address with `kind`; written by
  /// the next write_touched(). Node ports have no address of their own and are not counted.
  void count(const lb_frontend_key& frontend, lb_kind kind, int change);

  /// Writes every entry that differs, if set_node() was called or a write failed since the last success.
  /// Continues after an error; returns the last one.
  [[nodiscard]] maps::error_code write();
  /// Likewise, but only for addresses for which count() was called since the last time.
  [[nodiscard]] maps::error_code write_touched();
  /// Whether write() has something to write.
  [[nodiscard]] bool is_pending() const noexcept { return pending_; }

  /// Restores entries that other programs changed; returns their number.
  [[nodiscard]] maps::result<std::size_t> repair() { return entries_.repair(); }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.entries().size(); }
  [[nodiscard]] std::uint32_t limit() const noexcept { return entries_.limit(); }

 private:
  using Keys = boost::unordered_flat_set<lb_address_key, maps::HashBytes, maps::EqualBytes>;
  template <class Value>
  using ByAddress = boost::unordered_flat_map<lb_address_key, Value, maps::HashBytes, maps::EqualBytes>;
  /// Number of frontends at an address.
  struct ServiceUse {
    std::uint32_t cluster = 0;  ///< as a ClusterIP
    std::uint32_t others = 0;
  };

  [[nodiscard]] maps::error_code write(const Keys& keys);
  [[nodiscard]] maps::error_code write_services(const std::vector<lb_address_key>& keys);
  [[nodiscard]] static lb_address value_of(const lb_address_key& key, lb_address_kind kind);

  maps::Mirror<lb_address_key, lb_address> entries_;
  ByAddress<lb_address_kind> node_;
  ByAddress<ServiceUse> services_;
  Keys touched_;  ///< addresses of services whose entries may need a change
  bool pending_ = false;
};

}  // namespace lb::agent
