// SPDX-License-Identifier: Apache-2.0
// Plans that are not in the maps yet.
#include "agent/tables/retry_queue.hpp"

#include <algorithm>
#include <utility>

namespace lb::agent {
namespace {

constexpr auto first_pause = std::chrono::milliseconds(100);
constexpr unsigned max_doublings = 8;  // 25.6 s

}  // namespace

void RetryQueue::keep(PlanChange change, Progress progress, std::uint64_t since) {
  if (progress == Progress::written) {
    kept_.erase(change.service);
    return;
  }
  auto& kept = kept_[change.service];
  kept = {.change = std::move(change), .progress = progress, .since = since};
}

std::vector<PlanChange> RetryQueue::with(Progress progress) const {
  std::vector<PlanChange> changes;
  for (const auto& [service, kept] : kept_) {
    if (kept.progress == progress) {
      changes.push_back(kept.change);
    }
  }
  return changes;
}

bool RetryQueue::has(Progress progress) const {
  return std::ranges::any_of(kept_, [&](const auto& entry) { return entry.second.progress == progress; });
}

bool RetryQueue::has_failed(const std::string& service) const {
  const auto found = kept_.find(service);
  return found != kept_.end() && found->second.progress == Progress::failed;
}

std::optional<std::uint64_t> RetryQueue::waiting_since(const std::string& service) const {
  const auto found = kept_.find(service);
  if (found == kept_.end() || found->second.progress != Progress::waiting) {
    return std::nullopt;
  }
  return found->second.since;
}

void RetryQueue::note_room() noexcept {
  constexpr unsigned doublings = 3;
  retries_ = std::min(retries_, doublings);
}

std::chrono::milliseconds RetryQueue::pause() const {
  return first_pause * (1U << std::min(retries_, max_doublings));
}

}  // namespace lb::agent
