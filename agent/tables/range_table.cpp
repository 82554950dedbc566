// SPDX-License-Identifier: Apache-2.0
// Keeps lb_ranges: source ranges of services, and the node's lists.
#include "agent/tables/range_table.hpp"

#include <algorithm>
#include <utility>

#include "agent/tables/node_reserve.hpp"

namespace lb::agent {

using maps::error_code;

namespace {

bool is_list(std::uint32_t number) {
  return number == LB_CLUSTER_IP_RANGES || number == LB_POD_RANGES || number == LB_XFRM_RANGES;
}

}  // namespace

error_code RangeTable::load() {
  if (const error_code error = entries_.load()) {
    return error;
  }
  listed_ = static_cast<std::size_t>(
      std::ranges::count_if(entries(), [](const auto& entry) { return is_list(entry.first.service); }));
  return {};
}

bool RangeTable::has_room() const noexcept { return entries().size() < limit_for_services(limit(), listed_); }

error_code RangeTable::add(Ranges& have, const std::vector<lb_range_key>& wanted) {
  error_code error;
  for (const lb_range_key& key : wanted) {
    if (!has_room() && !entries().contains(key)) {
      error = make_error_code(boost::system::errc::no_space_on_device);
    } else if (const error_code failed = entries_.put(key, {.service = key.service})) {
      return failed;
    } else {
      have.insert(key);
    }
  }
  return error;
}

error_code RangeTable::remove_others(Ranges& have, const Ranges& wanted) {
  error_code first;
  erase_if(have, [&](const lb_range_key& key) {
    if (wanted.contains(key)) {
      return false;
    }
    const error_code error = entries_.erase(key);
    if (error && !first) {
      first = error;
    }
    return !error;
  });
  return first;
}

bool RangeTable::set_list(std::uint32_t list, const std::vector<k8s::Prefix>& ranges) {
  auto keys = range_keys(ranges, list);
  const auto [wanted, is_first] = lists_.try_emplace(list);
  if (!is_first && std::ranges::equal(wanted->second, keys, maps::EqualBytes())) {
    return false;
  }
  wanted->second = std::move(keys);
  pending_ = true;
  return true;
}

error_code RangeTable::write_lists() {
  if (!pending_) {
    return {};
  }
  error_code error = add_to_lists();
  const error_code failed = remove_from_lists();
  if (is_full(error)) {
    error = add_to_lists();  // what went has made room
  }
  if (failed) {
    error = failed;
  }
  pending_ = static_cast<bool>(error);
  return error;
}

/// Continues after an error; returns the last one.
error_code RangeTable::add_to_lists() {
  error_code error;
  for (const auto& [list, keys] : lists_) {
    for (const lb_range_key& key : keys) {
      const bool is_new = !entries().contains(key);
      if (const error_code failed = entries_.put(key, {.service = list})) {
        error = failed;
      } else if (is_new) {
        ++listed_;
      }
    }
  }
  return error;
}

error_code RangeTable::remove_from_lists() {
  error_code error;
  for (const lb_range_key& key : unwanted()) {
    if (const error_code failed = entries_.erase(key)) {
      error = failed;
    } else {
      --listed_;
    }
  }
  return error;
}

bool RangeTable::is_whole(std::uint32_t list) const {
  if (!pending_) {
    return true;
  }
  const auto wanted = lists_.find(list);
  return wanted == lists_.end() ||
         std::ranges::all_of(wanted->second, [this](const auto& key) { return entries().contains(key); });
}

/// Checks only lists that were set; an earlier agent's entries of other lists stay.
std::vector<lb_range_key> RangeTable::unwanted() const {
  Ranges wanted;
  for (const auto& [list, keys] : lists_) {
    wanted.insert(keys.begin(), keys.end());
  }
  std::vector<lb_range_key> unwanted;
  for (const auto& [key, value] : entries_.entries()) {
    if (lists_.contains(key.service) && !wanted.contains(key)) {
      unwanted.push_back(key);
    }
  }
  return unwanted;
}

}  // namespace lb::agent
