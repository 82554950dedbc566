// SPDX-License-Identifier: Apache-2.0
// A copy of a kernel hash's contents, so that only differences are written. No policy, no retries.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <optional>

#include "maps/hash.hpp"
#include "maps/map.hpp"

namespace lb::maps {

template <class Key, class Value>
class Mirror {
 public:
  using Entries = boost::unordered_flat_map<Key, Value, HashBytes, EqualBytes>;

  explicit Mirror(Table<Key, Value>& table) : table_(table) {}

  /// Discards the copy and reads the table again.
  [[nodiscard]] error_code load() {
    entries_.clear();
    return table_.for_each(
        [this](const Key& key, const Value& value) { entries_.insert_or_assign(key, value); });
  }

  /// An existing key is updated in place: it is never absent in between, except in the kernel's own update.
  [[nodiscard]] error_code put(const Key& key, const Value& value) {
    const auto found = entries_.find(key);
    if (found != entries_.end() && EqualBytes()(found->second, value)) {
      return {};
    }
    if (auto error = table_.put(key, value, Put::any)) {
      return error;
    }
    entries_.insert_or_assign(key, value);
    return {};
  }

  [[nodiscard]] error_code erase(const Key& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) {
      return {};
    }
    if (auto error = table_.erase(key)) {
      return error;
    }
    entries_.erase(found);
    return {};
  }

  /// Restores the table to the copy: reverts entries that other processes wrote, changed or deleted. Returns
  /// their number; entries that cannot be restored now are found again by the next call.
  [[nodiscard]] result<std::size_t> repair() {
    Entries found;
    if (auto error =
            table_.for_each([&](const Key& key, const Value& value) { found.emplace(key, value); })) {
      return error;
    }
    std::size_t damaged = 0;
    for (const auto& [key, value] : entries_) {
      const auto at = found.find(key);
      if (at != found.end() && EqualBytes()(at->second, value)) {
        continue;
      }
      ++damaged;
      if (auto error = table_.put(key, value, Put::any)) {
        return error;
      }
    }
    for (const auto& [key, value] : found) {
      if (entries_.contains(key)) {
        continue;
      }
      ++damaged;
      if (auto error = table_.erase(key)) {
        return error;
      }
    }
    return damaged;
  }

  [[nodiscard]] std::optional<Value> find(const Key& key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? std::nullopt : std::optional<Value>(found->second);
  }

  [[nodiscard]] const Entries& entries() const noexcept { return entries_; }
  [[nodiscard]] std::uint32_t limit() const noexcept { return table_.limit(); }

 private:
  Table<Key, Value>& table_;
  Entries entries_;
};

}  // namespace lb::maps
