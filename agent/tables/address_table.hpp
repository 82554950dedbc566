// lb_addresses: the kind of each address, for packets that no frontend matches. The node's own addresses, and
// those of services.
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

/// An address is the node's own before it is a ClusterIP, and that before it is another one of a service.
/// Facts come by set_node() and count(); only load(), the write functions and repair() make system calls.
class AddressTable {
 public:
  /// `table` must outlive this.
  explicit AddressTable(maps::Table<lb_address_key, lb_address>& table) : entries_(table) {}

  /// Reads what is pinned; writes nothing. Errors are the map's.
  [[nodiscard]] maps::error_code load() { return entries_.load(); }

  /// The whole list of the node's own addresses, in any order; for the next write().
  void set_node(const std::vector<NodeAddress>& addresses);
  /// `change` more frontends, or fewer, are at this address as `kind`; for the next write_touched(). A node
  /// port is at no address of its own and counts nowhere.
  void count(const lb_frontend_key& frontend, lb_kind kind, int change);

  /// Writes every entry that differs, if set_node() came or a write failed since the last success. Goes on
  /// after an error; returns the last one.
  [[nodiscard]] maps::error_code write();
  /// The same of those addresses only that count() was called for since the last time.
  [[nodiscard]] maps::error_code write_touched();
  /// Is there something that write() would write?
  [[nodiscard]] bool is_pending() const noexcept { return pending_; }

  /// Puts right what others wrote; how many entries that were.
  [[nodiscard]] maps::result<std::size_t> repair() { return entries_.repair(); }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.entries().size(); }
  [[nodiscard]] std::uint32_t limit() const noexcept { return entries_.limit(); }

 private:
  using Keys = boost::unordered_flat_set<lb_address_key, maps::HashBytes, maps::EqualBytes>;
  template <class Value>
  using ByAddress = boost::unordered_flat_map<lb_address_key, Value, maps::HashBytes, maps::EqualBytes>;
  /// How many frontends are at an address.
  struct ServiceUse {
    std::uint32_t cluster = 0;  ///< as a ClusterIP
    std::uint32_t others = 0;
  };

  [[nodiscard]] maps::error_code write(const Keys& keys);
  [[nodiscard]] maps::error_code write(const lb_address_key& key);

  maps::Mirror<lb_address_key, lb_address> entries_;
  ByAddress<lb_address_kind> node_;
  ByAddress<ServiceUse> services_;
  Keys touched_;  ///< addresses of services whose entries may have to change
  bool pending_ = false;
};

}  // namespace lb::agent
