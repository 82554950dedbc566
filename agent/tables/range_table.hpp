// lb_ranges: who may reach a service's load-balancer addresses, and the node's lists of ranges (of pods, of
// ClusterIPs, of IPsec policies). Both are prefixes below a number, which is a service's or a list's.
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

/// What one service has is known to its state; what a list shall have is known here.
class RangeTable {
 public:
  /// `table` must outlive this.
  explicit RangeTable(maps::Table<lb_range_key, lb_range>& table) : entries_(table) {}

  /// Reads what is pinned; writes nothing. Errors are the map's.
  [[nodiscard]] maps::error_code load() { return entries_.load(); }

  /// Writes `wanted`, and notes in `have` what the service has by then; ends at the first error.
  [[nodiscard]] maps::error_code add(Ranges& have, const std::vector<lb_range_key>& wanted);
  /// Removes from the table and from `have` what is not in `wanted`. Goes on after an error; returns the
  /// first one.
  [[nodiscard]] maps::error_code remove_others(Ranges& have, const Ranges& wanted);

  /// The whole of one list; for the next write_lists(). Whether it is another one than before.
  bool set_list(std::uint32_t list, const std::vector<k8s::Prefix>& ranges);
  /// Writes what differs of the lists that were set, if one was or the last time failed: first what comes,
  /// then what goes. Goes on after an error; returns the last one.
  [[nodiscard]] maps::error_code write_lists();
  /// Is there something that write_lists() would write?
  [[nodiscard]] bool is_pending() const noexcept { return pending_; }

  /// Puts right what others wrote; how many entries that were.
  [[nodiscard]] maps::result<std::size_t> repair() { return entries_.repair(); }
  [[nodiscard]] const auto& entries() const noexcept { return entries_.entries(); }
  [[nodiscard]] std::uint32_t limit() const noexcept { return entries_.limit(); }

 private:
  [[nodiscard]] std::vector<lb_range_key> unwanted() const;

  maps::Mirror<lb_range_key, lb_range> entries_;
  std::map<std::uint32_t, std::vector<lb_range_key>> lists_;  ///< as they shall be
  bool pending_ = false;
};

}  // namespace lb::agent
