// SPDX-License-Identifier: Apache-2.0
// Which Service each slice belongs to, and the trigger times of slices' changes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "agent/plan/trigger_times.hpp"
#include "k8s/objects/model.hpp"

namespace lb::agent {

class SliceIndex {
 public:
  /// The Service ("namespace/name") of a slice; nullopt: the slice is unknown.
  [[nodiscard]] std::optional<std::string> service_of(const k8s::ObjectKey& slice) const {
    const auto found = slices_.find(slice.text());
    return found == slices_.end() ? std::nullopt : std::optional(found->second.service);
  }

  /// `has_changed`: a slice reported again unchanged is not a change (SEM-88).
  void put(const k8s::EndpointSlice& slice, const std::string& service, bool has_changed) {
    auto& known = slices_[slice.key.text()];
    known.service = service;
    known.family = slice.family;
    for (const auto trigger : slice.triggers) {
      if (has_changed || trigger != known.trigger) {
        triggers_.add({service, slice.family}, trigger);
      }
      known.trigger = trigger;
    }
  }

  void erase(const k8s::ObjectKey& slice) {
    const auto known = slices_.find(slice.text());
    if (known != slices_.end()) {
      triggers_.discard({known->second.service, known->second.family});
      slices_.erase(known);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return slices_.size(); }
  void measure_triggers(std::int64_t after) { triggers_.start(after); }
  [[nodiscard]] TriggerTimes::Pending take_triggers() { return triggers_.take(); }

 private:
  struct Slice {
    std::string service;  ///< "namespace/name"
    k8s::Family family = k8s::Family::ipv4;
    std::int64_t trigger = 0;  ///< last reported trigger time; 0: none
  };
  std::unordered_map<std::string, Slice> slices_;  ///< by "namespace/name"
  TriggerTimes triggers_;
};

}  // namespace lb::agent
