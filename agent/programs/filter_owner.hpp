// SPDX-License-Identifier: Apache-2.0
// Which clsact filters are this Sluice's.
#pragma once

#include <filesystem>

#include "agent/netlink/filters.hpp"

namespace lb::agent {

/// The Sluice with these pins, as the owner of filters.
class FilterOwner {
 public:
  explicit FilterOwner(const std::filesystem::path& pins);
  [[nodiscard]] const std::filesystem::path& pins() const noexcept { return pins_; }
  [[nodiscard]] const FilterHandles& handles() const noexcept { return handles_; }
  /// Whether the filter is this Sluice's. One at an older handle is, unless it is of a Sluice with pins
  /// beside these. One at another Sluice's handle is if its program uses the maps pinned here: the agent that
  /// attached it saw these pins at another path.
  [[nodiscard]] bool owns(const TcFilter& filter) const;

 private:
  std::filesystem::path pins_;
  FilterHandles handles_;
};

}  // namespace lb::agent
