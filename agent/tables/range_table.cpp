// Keeps lb_ranges: source ranges of services, and the node's lists.
#include "agent/tables/range_table.hpp"

#include <algorithm>
#include <utility>

namespace lb::agent {

using maps::error_code;

error_code RangeTable::add(Ranges& have, const std::vector<lb_range_key>& wanted) {
  for (const lb_range_key& key : wanted) {
    if (const error_code error = entries_.put(key, {.service = key.service})) return error;
    have.insert(key);
  }
  return {};
}

error_code RangeTable::remove_others(Ranges& have, const Ranges& wanted) {
  error_code first;
  erase_if(have, [&](const lb_range_key& key) {
    if (wanted.contains(key)) return false;
    const error_code error = entries_.erase(key);
    if (error && !first) first = error;
    return !error;
  });
  return first;
}

bool RangeTable::set_list(std::uint32_t list, const std::vector<k8s::Prefix>& ranges) {
  auto keys = range_keys(ranges, list);
  const auto [wanted, is_first] = lists_.try_emplace(list);
  if (!is_first && std::ranges::equal(wanted->second, keys, maps::EqualBytes())) return false;
  wanted->second = std::move(keys);
  pending_ = true;
  return true;
}

error_code RangeTable::write_lists() {
  if (!pending_) return {};
  error_code error;
  const auto gone = unwanted();
  for (const auto& [list, keys] : lists_) {
    for (const lb_range_key& key : keys) {
      if (const error_code failed = entries_.put(key, {.service = list})) error = failed;
    }
  }
  for (const lb_range_key& key : gone) {
    if (const error_code failed = entries_.erase(key)) error = failed;
  }
  pending_ = static_cast<bool>(error);
  return error;
}

/// Checks only lists that were set; an earlier agent's entries of other lists stay.
std::vector<lb_range_key> RangeTable::unwanted() const {
  Ranges wanted;
  for (const auto& [list, keys] : lists_) wanted.insert(keys.begin(), keys.end());
  std::vector<lb_range_key> unwanted;
  for (const auto& [key, value] : entries_.entries()) {
    if (lists_.contains(key.service) && !wanted.contains(key)) unwanted.push_back(key);
  }
  return unwanted;
}

}  // namespace lb::agent
