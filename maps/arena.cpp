// SPDX-License-Identifier: Apache-2.0
// First fit over an ordered map of free ranges; a stack of released numbers.
#include "maps/arena.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace lb::maps {

ExtentArena::ExtentArena(std::uint32_t limit) : limit_(limit), available_(limit) {
  if (limit > 0) {
    free_.emplace(0, limit);
  }
}

std::optional<Extent> ExtentArena::allocate(std::uint32_t count) {
  if (count == 0) {
    return Extent{};
  }
  if (count > available_) {
    return std::nullopt;
  }
  const auto run = std::ranges::find_if(free_, [count](const auto& free) { return free.second >= count; });
  if (run == free_.end()) {
    return std::nullopt;
  }
  const Extent extent{.first = run->first, .count = count};
  cut(run, extent);
  return extent;
}

bool ExtentArena::claim(Extent extent) {
  if (extent.count == 0) {
    return true;
  }
  auto run = free_.upper_bound(extent.first);
  if (run == free_.begin()) {
    return false;
  }
  --run;
  if (std::uint64_t{run->first} + run->second < std::uint64_t{extent.first} + extent.count) {
    return false;
  }
  cut(run, extent);
  return true;
}

void ExtentArena::cut(std::map<std::uint32_t, std::uint32_t>::iterator run, Extent extent) {
  const auto [first, count] = *run;
  const std::uint32_t end = first + count;
  const std::uint32_t rest = extent.first + extent.count;
  if (extent.first == first) {
    free_.erase(run);
  } else {
    run->second = extent.first - first;
  }
  if (rest < end) {
    free_.emplace(rest, end - rest);
  }
  available_ -= extent.count;
}

void ExtentArena::release(Extent extent) {
  if (extent.count == 0) {
    return;
  }
  available_ += extent.count;
  auto after = free_.lower_bound(extent.first);
  assert(after == free_.end() || extent.first + extent.count <= after->first);
  if (after != free_.end() && extent.first + extent.count == after->first) {
    extent.count += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    assert(before->first + before->second <= extent.first);
    if (before->first + before->second == extent.first) {
      before->second += extent.count;
      return;
    }
  }
  free_.emplace_hint(after, extent.first, extent.count);
}

std::uint32_t ExtentArena::largest() const noexcept {
  std::uint32_t longest = 0;
  for (const auto& [first, count] : free_) {
    longest = std::max(longest, count);
  }
  return longest;
}

IdPool::IdPool(std::uint32_t limit) : limit_(limit) {}

void IdPool::adopt(const std::vector<bool>& used) {
  const auto last = std::find(used.rbegin(), used.rend(), true);
  next_ = std::max(1U, static_cast<std::uint32_t>(used.rend() - last));
  returned_.clear();
  for (std::uint32_t id = next_ - 1; id >= 1; --id) {
    if (!used[id]) {
      returned_.push_back(id);
    }
  }
}

std::optional<std::uint32_t> IdPool::allocate() {
  if (!returned_.empty()) {
    const std::uint32_t id = returned_.back();
    returned_.pop_back();
    return id;
  }
  if (next_ >= limit_) {
    return std::nullopt;
  }
  return next_++;
}

void IdPool::release(std::uint32_t id) { returned_.push_back(id); }

std::uint32_t IdPool::available() const noexcept {
  return static_cast<std::uint32_t>(returned_.size()) + (limit_ > next_ ? limit_ - next_ : 0);
}

}  // namespace lb::maps
