// SPDX-License-Identifier: Apache-2.0
// lb_ranges: the source ranges of services' load-balancer addresses, and the node's range lists (pods,
// ClusterIPs, IPsec policies). Each entry is a prefix below the number of a service or of a list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "agent/tables/table_keys.hpp"
#include "k8s/objects/model.hpp"
#include "maps/abi/abi.h"
#include "maps/map.hpp"
#include "maps/mirror.hpp"

namespace lb::agent {

/// ServiceState has the ranges of a service; this class has the wanted ranges of lists.
class RangeTable {
 public:
  /// `table` must outlive this.
  explicit RangeTable(maps::Table<lb_range_key, lb_range>& table) : entries_(table) {}

  /// Reads the pinned map; writes nothing. Errors are the map's.
  [[nodiscard]] maps::error_code load();

  /// Whether a range of a service fits. The last entries of the table are only for lists
  /// (agent/tables/node_reserve.hpp).
  [[nodiscard]] bool has_room() const noexcept;
  /// Writes as much of `wanted` as fits, and adds written ranges to `have`. no_space_on_device: not all fit;
  /// stops at an error of the map.
  [[nodiscard]] maps::error_code add(Ranges& have, const std::vector<lb_range_key>& wanted);
  /// Removes ranges that are not in `wanted` from the table and from `have`. Continues after an error;
  /// returns the first one.
  [[nodiscard]] maps::error_code remove_others(Ranges& have, const Ranges& wanted);

  /// Sets the complete list; written by the next write_lists(). Returns whether it differs from the previous
  /// one.
  bool set_list(std::uint32_t list, const std::vector<k8s::Prefix>& ranges);
  /// Writes the differences of the lists that were set, if one was set or the last write failed: adds ranges
  /// first, then removes; in a full table it then adds what found no room. Continues after an error; returns
  /// the last one.
  [[nodiscard]] maps::error_code write_lists();
  /// Whether write_lists() has something to write.
  [[nodiscard]] bool is_pending() const noexcept { return pending_; }
  /// Whether the table has all ranges of this list, as it was set last.
  [[nodiscard]] bool is_whole(std::uint32_t list) const;

  /// Restores entries that other programs changed; returns their number.
  [[nodiscard]] maps::result<std::size_t> repair() { return entries_.repair(); }
  [[nodiscard]] const auto& entries() const noexcept { return entries_.entries(); }
  [[nodiscard]] std::uint32_t limit() const noexcept { return entries_.limit(); }

 private:
  [[nodiscard]] maps::error_code add_to_lists();
  [[nodiscard]] maps::error_code remove_from_lists();
  [[nodiscard]] std::vector<lb_range_key> unwanted() const;

  maps::Mirror<lb_range_key, lb_range> entries_;
  std::map<std::uint32_t, std::vector<lb_range_key>> lists_;  ///< the wanted lists
  std::size_t listed_ = 0;                                    ///< entries of lists
  bool pending_ = false;
};

}  // namespace lb::agent
