// lb_frontends: which service number an address and port belong to, and what follows from that: the address
// counts as a service's, and a node port is reserved from source NAT.
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
  /// All of these must outlive this. Addresses are counted here; who writes them is the caller.
  FrontendTable(maps::Table<lb_frontend_key, lb_frontend>& table, AddressTable& addresses,
                ReservedPorts& ports)
      : entries_(table), addresses_(addresses), ports_(ports) {}

  /// Reads what is pinned, and counts its addresses and node ports. Errors are the map's.
  [[nodiscard]] maps::error_code load();
  /// Writes one entry if it differs. Where it points to another service, it passes to `value.service`; unless
  /// it was that one's before, which gets it back when the other removes it. Errors are the map's; is_full()
  /// reports those of a map without room.
  [[nodiscard]] maps::error_code put(const lb_frontend_key& key, const lb_frontend& value);
  /// Gives up what `service` has put: the entry goes, or passes back to the service that it was taken from.
  [[nodiscard]] maps::error_code remove(const lb_frontend_key& key, std::uint32_t service);

  [[nodiscard]] bool contains(const lb_frontend_key& key) const { return entries_.entries().contains(key); }

  /// Puts right what others wrote; how many entries that were.
  [[nodiscard]] maps::result<std::size_t> repair() { return entries_.repair(); }
  [[nodiscard]] const auto& entries() const noexcept { return entries_.entries(); }
  [[nodiscard]] std::uint32_t limit() const noexcept { return entries_.limit(); }

 private:
  /// Services that an entry was taken from and that have not removed it, in the order in which they lost it.
  /// A large service is removed in parts: meanwhile another may hold what the plan has given it already.
  using Former = std::vector<lb_frontend>;

  [[nodiscard]] maps::error_code write(const lb_frontend_key& key, const lb_frontend& value);
  /// Null: the entry was never that service's, or is so now.
  [[nodiscard]] lb_frontend* find_former(const lb_frontend_key& key, std::uint32_t service);
  void forget_former(const lb_frontend_key& key, std::uint32_t service);
  void count_node_port(const lb_frontend_key& key, int change);

  maps::Mirror<lb_frontend_key, lb_frontend> entries_;
  AddressTable& addresses_;
  ReservedPorts& ports_;
  boost::unordered_flat_map<lb_frontend_key, Former, maps::HashBytes, maps::EqualBytes> former_;
};

}  // namespace lb::agent
