// SPDX-License-Identifier: Apache-2.0
// The slices of one Service.
#include "agent/plan/service_slices.hpp"

#include <algorithm>

namespace lb::agent {
namespace {

constexpr std::uint64_t endpoints_per_unit = 4;  ///< that are counted

}  // namespace

Change ServiceSlices::put(const k8s::EndpointSlice& slice) {
  const auto& name = slice.key.name;
  const auto known = present(name);
  auto compact = known ? std::make_shared<const CompactSlice>(slice, *known)
                       : std::make_shared<const CompactSlice>(slice);
  if (known && *known == *compact) {
    return Change::none;
  }
  retire(name);
  endpoint_count_ += compact->size();
  compact->for_each_address([this](const k8s::Address& address) { blocks_.add(address); });
  if (ready_) {
    ready_->add(*compact);
  }
  slices_.emplace(name, std::move(compact));
  return Change::some;
}

void ServiceSlices::erase(const std::string& name) { retire(name); }

Change ServiceSlices::reread_at(const std::vector<k8s::Address>& sorted) {
  auto change = Change::none;
  for (const auto& [name, slice] : slices_) {
    if (!slice->has_one_of(sorted)) {
      continue;
    }
    change = Change::some;
    if (!changed_.insert(name).second) {  // candidates of an older state of the slice are replaced
      invalidate();
      continue;
    }
    retired_.insert_or_assign(name, slice);
    ports_changed();
  }
  return change;
}

/// A slice that was added since the last plan began has no candidates, so none must be removed for it.
void ServiceSlices::retire(const std::string& slice) {
  const bool was_read = changed_.insert(slice).second;
  ports_changed();
  const auto found = slices_.find(slice);
  if (found == slices_.end()) {
    return;
  }
  endpoint_count_ -= found->second->size();
  found->second->for_each_address([this](const k8s::Address& address) { blocks_.remove(address); });
  if (ready_) {
    ready_->remove(*found->second);
  }
  if (was_read) {
    retired_.insert_or_assign(slice, std::move(found->second));
  }
  slices_.erase(found);
}

std::shared_ptr<const CompactSlice> ServiceSlices::present(const std::string& name) const {
  const auto found = slices_.find(name);
  return found == slices_.end() ? nullptr : found->second;
}

SliceChanges ServiceSlices::begin() {
  SliceChanges changes;
  const auto state = std::exchange(state_, State::resolved);
  changes.any = state != State::resolved;
  changes.are_stale = state == State::all_stale;
  if (changes.are_stale) {
    skipped_.clear();
  }
  for (const auto& name : std::exchange(changed_, {})) {
    skipped_.erase(name);
    const auto before = retired_.find(name);
    changes.changed.push_back(
        {before == retired_.end() ? nullptr : std::move(before->second), present(name)});
  }
  retired_.clear();
  return changes;
}

std::vector<SliceChange> ServiceSlices::all() const {
  std::vector<SliceChange> changes;
  changes.reserve(slices_.size());
  for (const auto& [name, slice] : slices_) {
    changes.push_back({nullptr, slice});
  }
  return changes;
}

bool ServiceSlices::names_node(std::string_view node) const {
  return std::ranges::any_of(slices_, [&](const auto& entry) { return entry.second->names_node(node); });
}

bool ServiceSlices::has_one_of(const std::vector<k8s::Address>& sorted) const {
  return std::ranges::any_of(slices_, [&](const auto& entry) { return entry.second->has_one_of(sorted); });
}

bool ServiceSlices::are_in_blocks_of(const std::vector<k8s::Address>& addresses) const {
  return !slices_.empty() &&
         std::ranges::any_of(addresses, [this](const auto& address) { return blocks_.may_have(address); });
}

void ServiceSlices::append_listening(std::vector<ListeningAddress>& addresses) const {
  for (const auto& [name, slice] : slices_) {
    slice->append_listening(addresses);
  }
}

const LocalReady& ServiceSlices::count_ready(const std::string& node, WorkBudget& work) {
  if (!ready_) {
    ready_.emplace(node);
    for (const auto& [name, slice] : slices_) {
      ready_->add(*slice);
    }
    work.spend(slices_.size() + endpoint_count_ / endpoints_per_unit);
  }
  return *ready_;
}

}  // namespace lb::agent
