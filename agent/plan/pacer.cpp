// SPDX-License-Identifier: Apache-2.0
// Between the model and the tables: writes plans in parts.
#include "agent/plan/pacer.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "agent/plan/plan_parts.hpp"

namespace lb::agent {

void Pacer::apply(Batch batch, std::vector<PlanChange> changes) {
  if (batch == Batch::whole) {
    prepare(changes);
    pass_whole();
  } else {
    pass_changes(std::move(changes));
  }
  ask_for_more();
}

bool Pacer::prepare(std::vector<PlanChange>& changes) {
  for (auto& change : changes) {
    prepare_one(std::move(change));
  }
  changes.clear();
  return true;
}

void Pacer::prepare_one(PlanChange change) {
  if (replaces_wanted(change)) {
    return;
  }
  const auto writes = first_ == FirstBatch::in_parts ? writes_for(change) : 0;
  prepared_writes_ += writes;
  if (change.state == PlanState::planned && std::max(writes, prepared_writes_) > max_writes_) {
    return wait_in_turn(std::move(change));
  }
  note(change);
  auto& prepared = prepared_[change.service];
  prepared = std::move(change);
}

/// Removed services come first.
void Pacer::pass_whole() {
  std::vector<PlanChange> gone;
  std::vector<PlanChange> others;
  for (auto& [service, change] : std::exchange(prepared_, {})) {
    const bool is_gone = change.ports.empty() && change.state == PlanState::planned;
    (is_gone ? gone : others).push_back(std::move(change));
  }
  std::ranges::move(others, std::back_inserter(gone));
  plans_.apply(Batch::whole, std::move(gone));
}

void Pacer::pass_changes(std::vector<PlanChange> changes) {
  std::vector<PlanChange> small;
  for (auto& change : changes) {
    if (replaces_wanted(change)) {
      continue;
    }
    if (change.state == PlanState::planned && writes_for(change) > max_writes_) {
      wait_in_turn(std::move(change));
    } else {
      note(change);
      small.push_back(std::move(change));
    }
  }
  if (!small.empty()) {
    plans_.apply(Batch::changes, std::move(small));
  }
}

/// Replaces the plans that this service is on its way to, if it is.
bool Pacer::replaces_wanted(PlanChange& change) {
  const auto service = services_.find(change.service);
  if (service == services_.end() || !service->second.wanted) {
    return false;
  }
  service->second.wanted = std::move(change.ports);
  return true;
}

void Pacer::wait_in_turn(PlanChange change) {
  services_[change.service].wanted = std::move(change.ports);
  turns_.push_back(std::move(change.service));
}

std::size_t Pacer::writes_for(const PlanChange& change) const {
  static const ServicePlans none;
  const auto service = services_.find(change.service);
  return writes_between(service == services_.end() ? none : service->second.passed, change.ports,
                        max_writes_ + 1, consistent_slots_);
}

void Pacer::note(const PlanChange& passed) {
  if (passed.state == PlanState::waiting) {
    return;
  }
  if (passed.ports.empty()) {
    services_.erase(passed.service);
  } else {
    services_[passed.service].passed = passed.ports;
  }
}

/// The next part for the service whose turn it is, of about `writes` writes, which it subtracts.
PlanChange Pacer::next_part(std::size_t& writes) {
  auto name = std::move(turns_.front());
  turns_.pop_front();
  auto& service = services_.at(name);
  const auto cost = writes_between(service.passed, *service.wanted, writes + 1, consistent_slots_);
  PlanChange part{name,
                  part_towards(service.passed, *service.wanted, writes, consistent_slots_, max_entries_)};
  service.passed = part.ports;
  writes -= std::min(writes, cost);
  if (part.ports != *service.wanted) {
    turns_.push_back(std::move(name));
    writes = 0;
    return part;
  }
  service.wanted.reset();
  if (part.ports.empty()) {
    services_.erase(name);
  }
  return part;
}

void Pacer::take_turn() {
  constexpr std::size_t min_writes = 4;  // with fewer, a part may make no progress
  asked_for_more_ = false;
  std::vector<PlanChange> parts;  // Removed services come first: another service may get their frontends next
  std::vector<PlanChange> others;
  for (std::size_t writes = max_writes_; writes >= min_writes && !turns_.empty();) {
    auto part = next_part(writes);
    (part.ports.empty() ? parts : others).push_back(std::move(part));
  }
  std::ranges::move(others, std::back_inserter(parts));
  if (!parts.empty()) {
    plans_.apply(Batch::changes, std::move(parts));
  }
  ask_for_more();
}

void Pacer::ask_for_more() {
  if (!turns_.empty() && !std::exchange(asked_for_more_, true)) {
    more_();
  }
}

}  // namespace lb::agent
