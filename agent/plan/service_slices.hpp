// SPDX-License-Identifier: Apache-2.0
// The slices of one Service, and which of them have changed since it was last planned. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/plan/address_blocks.hpp"
#include "agent/plan/endpoints.hpp"
#include "agent/plan/local_ready.hpp"
#include "agent/plan/plan.hpp"
#include "agent/plan/work_budget.hpp"
#include "k8s/objects/model.hpp"

namespace lb::agent {

enum class Change : std::uint8_t { none, some };

/// A slice before and after a change; null: it did not exist, or is removed.
struct SliceChange {
  std::shared_ptr<const CompactSlice> before;
  std::shared_ptr<const CompactSlice> after;
};

/// What has changed since the last plan began.
struct SliceChanges {
  bool any = false;        ///< false: the endpoints are those of the last plan
  bool are_stale = false;  ///< what was read from every slice must be read again
  std::vector<SliceChange> changed;
};

class ServiceSlices {
 public:
  /// `blocks` counts the endpoints of all services; it must outlive this.
  explicit ServiceSlices(AddressBlocks& blocks) : blocks_(blocks) {}

  Change put(const k8s::EndpointSlice& slice);
  void erase(const std::string& name);
  /// Call when endpoints at these addresses, which are sorted, may be read otherwise now. Returns whether
  /// there are any.
  Change reread_at(const std::vector<k8s::Address>& sorted);
  /// Every slice must be read again.
  void invalidate() noexcept { state_ = State::all_stale; }
  /// The service ports have changed.
  void ports_changed() noexcept {
    if (state_ == State::resolved) {
      state_ = State::changed;
    }
  }

  /// A plan begins: returns what has changed, and forgets it.
  [[nodiscard]] SliceChanges begin();
  /// All slices, as new ones.
  [[nodiscard]] std::vector<SliceChange> all() const;

  /// A message about endpoints that are skipped, until the slice changes.
  void skip(const std::string& slice, std::string message) { skipped_[slice].insert(std::move(message)); }
  /// By slice.
  [[nodiscard]] const std::map<std::string, std::set<std::string>>& skipped() const noexcept {
    return skipped_;
  }

  [[nodiscard]] bool empty() const noexcept { return slices_.empty(); }
  [[nodiscard]] std::size_t endpoint_count() const noexcept { return endpoint_count_; }
  [[nodiscard]] bool names_node(std::string_view node) const;
  [[nodiscard]] bool has_one_of(const std::vector<k8s::Address>& sorted) const;
  /// Whether an endpoint of any Service may have one of these addresses, and this one has endpoints.
  [[nodiscard]] bool are_in_blocks_of(const std::vector<k8s::Address>& addresses) const;
  void append_listening(std::vector<ListeningAddress>& addresses) const;

  /// The number of distinct addresses of ready endpoints on the node. The first call reads all slices and
  /// spends `work`; later they are counted as slices come and go, until stop_counting().
  [[nodiscard]] const LocalReady& count_ready(const std::string& node, WorkBudget& work);
  void stop_counting() noexcept { ready_.reset(); }

 private:
  enum class State : std::uint8_t { resolved, changed, all_stale };
  void retire(const std::string& slice);
  [[nodiscard]] std::shared_ptr<const CompactSlice> present(const std::string& name) const;

  AddressBlocks& blocks_;
  State state_ = State::resolved;
  std::map<std::string, std::shared_ptr<const CompactSlice>> slices_;
  std::set<std::string> changed_;
  /// Removed or changed slices whose candidates must be removed.
  std::map<std::string, std::shared_ptr<const CompactSlice>> retired_;
  std::map<std::string, std::set<std::string>> skipped_;
  std::size_t endpoint_count_ = 0;
  std::optional<LocalReady> ready_;
};

}  // namespace lb::agent
