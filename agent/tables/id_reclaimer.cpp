// SPDX-License-Identifier: Apache-2.0
// Quarantine: stamps each retired item with the number of grace periods started so far, and frees it when one
// more has completed.
#include "agent/tables/id_reclaimer.hpp"

#include <algorithm>
#include <utility>

namespace lb::agent {

using maps::Extent;

IdReclaimer::IdReclaimer(const maps::Store& store, maps::GracePeriod& grace, maps::Sweeper& sweeper,
                         std::function<void()> freed)
    : store_(store),
      grace_(grace),
      sweeper_(sweeper),
      freed_(std::move(freed)),
      slots_(store.slots.size()),
      backends_(store.backends.size()),
      services_(std::min(store.services.size(), store.names.limit())),
      retired_backends_(store.backends) {
  // Avoids rehashing a large map, which takes long.
  retired_backends_.reserve(store.backends.size());
}

std::optional<Extent> IdReclaimer::slots(std::uint32_t count) {
  if (closed_ && count > 0) {
    return std::nullopt;
  }
  return slots_.allocate(count);
}

std::optional<std::uint32_t> IdReclaimer::backend() { return closed_ ? std::nullopt : backends_.allocate(); }

std::optional<std::uint32_t> IdReclaimer::service() { return closed_ ? std::nullopt : services_.allocate(); }

template <class T>
IdReclaimer::Retired<T> IdReclaimer::stamped(T what) {
  dirty_ = true;
  return {.what = what, .epoch = started_};
}

void IdReclaimer::retire(Extent extent) {
  if (extent.count > 0) {
    retired_slots_.push_back(stamped(extent));
  }
}

void IdReclaimer::retire_backend(std::uint32_t id) {
  dirty_ = true;
  const RetiredBackend retired{.epoch = started_, .service = store_.backends.load(id).service};
  // We never create two ids with one key; the second one stays out of use until the next start.
  if (!retired_backends_.emplace(id, retired).second) {
    return;
  }
  ++retired_of_[retired.service];
  ++unswept_backends_;
}

void IdReclaimer::retire_service(std::uint32_t number) {
  retired_services_.push_back(stamped(number));
  ++unswept_services_;
}

std::optional<std::uint32_t> IdReclaimer::find_retired(const BackendKey& key) const {
  if (retired_backends_.empty()) {
    return std::nullopt;
  }
  const auto found = retired_backends_.find(key);
  return found == retired_backends_.end() ? std::nullopt : std::optional(found->first);
}

void IdReclaimer::revive(std::uint32_t id) {
  const auto retired = retired_backends_.find(id);
  if (retired == retired_backends_.end()) {
    return;
  }
  forget_backend_of(retired->second.service);
  retired_backends_.erase(retired);
}

void IdReclaimer::forget_backend_of(std::uint32_t number) {
  const auto count = retired_of_.find(number);
  if (count != retired_of_.end() && --count->second == 0) {
    retired_of_.erase(count);
  }
}

void IdReclaimer::flush() {
  if (!dirty_ || started_ != completed_) {
    return;
  }
  dirty_ = false;
  ++started_;
  grace_.after([this] { passed(); });
}

void IdReclaimer::passed() {
  completed_ = started_;
  closed_ = false;
  while (!retired_slots_.empty() && retired_slots_.front().epoch < completed_) {
    slots_.release(retired_slots_.front().what);
    retired_slots_.pop_front();
  }
  flush();
  sweep_if_wanted();
  freed_();
}

void IdReclaimer::request_sweep() {
  urgent_ = true;
  flush();
  if (started_ == completed_) {
    sweep_if_wanted();
  }
}

void IdReclaimer::sweep_if_wanted() {
  const bool wanted =
      urgent_ || unswept_backends_ > backends_.available() || unswept_services_ > services_.available();
  if (sweeping_ || !wanted) {
    return;
  }
  sweeping_ = true;
  urgent_ = false;
  sweep_epoch_ = completed_;
  sweeper_.sweep([this](const maps::result<maps::Named>& named) { swept(named); });
}

void IdReclaimer::swept(const maps::result<maps::Named>& named) {
  sweeping_ = false;
  swept_epoch_ = sweep_epoch_;
  // Also after an error: the sweep is retried when something is short or more was retired.
  unswept_backends_ = 0;
  unswept_services_ = 0;
  if (named) {
    release_backends(*named);
    release_services(*named);
  }
  // This sweep also serves a sweep requested meanwhile; otherwise two full tables would request sweeps for
  // ever.
  if (unswept_backends_ + unswept_services_ == 0) {
    urgent_ = false;
  }
  freed_();
}

// Erases by position: an id whose entry was overwritten is not found by its key any more.
void IdReclaimer::release_backends(const maps::Named& named) {
  for (auto next = retired_backends_.begin(); next != retired_backends_.end();) {
    const auto retired = next++;
    const auto [id, kept] = *retired;
    const bool swept = kept.epoch < sweep_epoch_;
    if (!swept) {
      ++unswept_backends_;
    }
    if (!swept || named.backend(id)) {
      continue;
    }
    retired_backends_.erase(retired);
    forget_backend_of(kept.service);
    store_.backends.store(id, {});
    backends_.release(id);
  }
}

void IdReclaimer::release_services(const maps::Named& named) {
  std::erase_if(retired_services_, [&](const Retired<std::uint32_t>& retired) {
    const bool swept = retired.epoch < sweep_epoch_;
    if (!swept) {
      ++unswept_services_;
    }
    return swept && !named.service(retired.what) && !retired_of_.contains(retired.what) &&
           release_service(retired.what);
  });
}

bool IdReclaimer::release_service(std::uint32_t number) {
  store_.services.store(number, {});
  // The name is erased last: while it exists, the number is not free, also for the next agent.
  if (store_.names.erase(number)) {
    return false;
  }
  services_.release(number);
  return true;
}

bool IdReclaimer::may_free_more(std::uint64_t since) const noexcept {
  if (swept_epoch_ > since) {
    return false;
  }
  return closed_ || dirty_ || started_ != completed_ || sweeping_ || urgent_ || unswept_backends_ > 0 ||
         unswept_services_ > 0;
}

std::uint64_t IdReclaimer::retired_slots() const {
  std::uint64_t slots = 0;
  for (const auto& retired : retired_slots_) {
    slots += retired.what.count;
  }
  return slots;
}

void IdReclaimer::adopt(const std::vector<bool>& used_backends, const std::vector<bool>& used_services) {
  backends_.adopt(used_backends);
  services_.adopt(used_services);
  closed_ = true;
  dirty_ = true;
}

}  // namespace lb::agent
