// SPDX-License-Identifier: Apache-2.0
// All Services, each with the stage of its work.
#include "agent/plan/service_records.hpp"

namespace lb::agent {

ServiceRecord* ServiceRecords::find(const std::string& service) {
  const auto found = records_.find(service);
  return found == records_.end() ? nullptr : &found->second;
}

const ServiceRecord* ServiceRecords::find(const std::string& service) const {
  const auto found = records_.find(service);
  return found == records_.end() ? nullptr : &found->second;
}

ServiceRecord& ServiceRecords::find_or_add(const std::string& service, AddressBlocks& blocks) {
  return records_.try_emplace(service, service, blocks).first->second;
}

const ServiceRecord* ServiceRecords::after(const std::string& service) const {
  const auto next = records_.upper_bound(service);
  return next == records_.end() ? nullptr : &next->second;
}

std::pair<ServiceRecords::Queue*, std::uint64_t> ServiceRecords::place(const ServiceRecord& record) {
  const auto queue = queue_of(record.stage_);
  return {&queues_.at(static_cast<std::size_t>(queue)),
          queue == StageQueue::to_read ? record.read_position_ : record.plan_position_};
}

/// Services whose plans are under way take turns: each goes to the end after its own.
void ServiceRecords::renew_positions(ServiceRecord& record, StageEvent event, Stage to) {
  if (event == StageEvent::claims_made || event == StageEvent::put_off) {
    record.read_position_ = 0;
  }
  if (event == StageEvent::put_off || event == StageEvent::planned || event == StageEvent::plan_ended ||
      event == StageEvent::plan_begun) {
    record.plan_position_ = 0;
  }
  const auto queue = queue_of(to);
  if (record.read_position_ == 0 && (queue == StageQueue::to_read || to == Stage::to_plan_outdated)) {
    record.read_position_ = next_++;
  }
  if (record.plan_position_ == 0 && (queue == StageQueue::to_plan || queue == StageQueue::under_way)) {
    record.plan_position_ = next_++;
  }
}

void ServiceRecords::happened(ServiceRecord& record, StageEvent event) {
  const auto next = next_stage(record.stage_, event);
  if (!next) {
    impossible_(record, event);
    record.model.give_up_plan();
  }
  ++times_.at(static_cast<std::size_t>(record.stage_)).at(static_cast<std::size_t>(event));
  // Claims that were begun must be completed before the object is read again.
  const auto to = next.value_or(record.model.is_claiming() ? Stage::claiming_outdated : Stage::changed);
  if (to == record.stage_ && event != StageEvent::plan_begun) {
    return;
  }
  // One that is to be planned, but has changed, waits in both queues: whichever turn comes first reads it.
  auto& to_read = queues_.at(static_cast<std::size_t>(StageQueue::to_read));
  const auto [before, position] = place(record);
  before->erase(position);
  if (record.stage_ == Stage::to_plan_outdated) {
    to_read.erase(record.read_position_);
  }
  renew_positions(record, event, to);
  record.stage_ = to;
  if (to == Stage::to_plan_outdated) {
    to_read.emplace(record.read_position_, &record);
  }
  if (to != Stage::idle) {
    const auto [queue, place_in_it] = place(record);
    queue->emplace(place_in_it, &record);
  }
}

ServiceRecord* ServiceRecords::first(StageQueue queue) const {
  const auto& all = queues_.at(static_cast<std::size_t>(queue));
  return all.empty() ? nullptr : all.begin()->second;
}

void ServiceRecords::set_lacks_labels(ServiceRecord& record, bool lacks) noexcept {
  if (record.lacks_labels_ != lacks) {
    record.lacks_labels_ = lacks;
    lacking_labels_ += lacks ? 1 : -std::size_t{1};
  }
}

void ServiceRecords::remove_if_empty(const std::string& service) {
  const auto found = records_.find(service);
  if (found != records_.end() && found->second.stage_ == Stage::idle && found->second.model.is_empty()) {
    set_lacks_labels(found->second, false);
    records_.erase(found);
  }
}

}  // namespace lb::agent
