// SPDX-License-Identifier: Apache-2.0
// Which labels of other Nodes to watch: those that Services ask for, and for a while those that they asked
// for. Without it, an annotation that comes and goes would make every agent list all Nodes each time. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "k8s/client/transport.hpp"
#include "k8s/objects/model.hpp"

namespace lb::k8s {

class LingeringLabels {
 public:
  /// Of more labels that no Service asks for, none is kept: with `--topology-labels all` their number has no
  /// limit.
  static constexpr std::size_t max_unasked = 64;

  explicit LingeringLabels(Time stay) : stay_(stay) {}

  /// Returns the labels to watch. `asked`: those that Services ask for now.
  LabelKeys update(LabelKeys asked, Time now) {
    for (const auto& label : asked_) {
      unasked_.try_emplace(label, now);
    }
    std::erase_if(unasked_, [&](const auto& label) {
      return asked.contains(label.first) || now - label.second >= stay_;
    });
    if (unasked_.size() > max_unasked) {
      unasked_.clear();
    }
    asked_ = asked;
    for (const auto& [label, since] : unasked_) {
      asked.insert(label);
    }
    return asked;
  }

  /// When the next label's time is over; nullopt: Services ask for all of them.
  [[nodiscard]] std::optional<Time> due() const {
    const auto first = std::ranges::min_element(unasked_, {}, &std::pair<const std::string, Time>::second);
    return first == unasked_.end() ? std::nullopt : std::optional(first->second + stay_);
  }

 private:
  Time stay_;
  LabelKeys asked_;                      ///< at the last update()
  std::map<std::string, Time> unasked_;  ///< since when
};

}  // namespace lb::k8s
