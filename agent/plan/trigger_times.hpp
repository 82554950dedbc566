// SPDX-License-Identifier: Apache-2.0
// Trigger times of changes that are not in the maps yet, which kube-proxy records for its network programming
// latency (SEM-64, SEM-88). Pure: times are Unix nanoseconds that callers read.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "k8s/objects/model.hpp"

namespace lb::agent {

/// kube-proxy has one tracker for each family.
struct TriggerKey {
  std::string service;  ///< "namespace/name"
  k8s::Family family = k8s::Family::ipv4;
  auto operator<=>(const TriggerKey&) const = default;
};

class TriggerTimes {
 public:
  using Pending = std::map<TriggerKey, std::vector<std::int64_t>>;

  /// Keeps trigger times later than this from now on; before the call none are kept.
  void start(std::int64_t after) { after_ = after; }
  void add(TriggerKey key, std::int64_t time) {
    if (after_ && time > *after_) {
      pending_[std::move(key)].push_back(time);
    }
  }
  /// Call when a slice is removed: its annotation is from an earlier change, so its service is not measured.
  void discard(const TriggerKey& key) { pending_.erase(key); }
  [[nodiscard]] Pending take() { return std::exchange(pending_, {}); }

 private:
  std::optional<std::int64_t> after_;
  Pending pending_;
};

}  // namespace lb::agent
