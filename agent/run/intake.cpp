// SPDX-License-Identifier: Apache-2.0
// Counts objects and passes them on.
#include "agent/run/intake.hpp"

#include <algorithm>
#include <utility>

#include "agent/plan/plan.hpp"

namespace lb::agent {

Intake::Intake(k8s::Sink& model, std::string node, Metrics& metrics, Health& health,
               std::function<Moment()> clock, std::function<void()> in_sync)
    : model_(model),
      node_(std::move(node)),
      metrics_(metrics),
      health_(health),
      clock_(std::move(clock)),
      in_sync_(std::move(in_sync)) {}

void Intake::arrived() { arrived_ = clock_(); }

Moment Intake::queue() {
  const auto now = clock_();
  health_.queued(now);
  burst_ = burst_.value_or(arrived_.value_or(now));
  return now;
}

void Intake::note(Subject what) { metrics_.changed(what, queue().wall); }

void Intake::finish_burst() {
  if (api_server_cache_ != nullptr) {
    api_server_cache_->write();
  }
  burst_.reset();
  arrived_.reset();
  metrics_.in_sync();
  in_sync_();
}

void Intake::upsert(k8s::Service service) {
  note(Subject::service);
  model_.upsert(std::move(service));
}

void Intake::upsert(k8s::EndpointSlice slice) {
  note(Subject::endpoints);
  if (api_server_cache_ != nullptr) {
    api_server_cache_->see(slice);
  }
  model_.upsert(std::move(slice));
}

void Intake::upsert(k8s::Node node) {
  static_cast<void>(queue());
  any_node_ = true;
  if (node.name == node_) {
    own_node_ = true;
    health_.eligibility(node.leaving ? NodeEligibility::leaving : NodeEligibility::eligible);
  }
  model_.upsert(std::move(node));
}

void Intake::upsert(k8s::ServiceCidr cidr) {
  service_cidrs_.insert_or_assign(cidr.name, cidr.ranges);
  model_.upsert(std::move(cidr));
}

void Intake::erase_service(const k8s::ObjectKey& key) {
  note(Subject::service);
  model_.erase_service(key);
}

void Intake::erase_slice(const k8s::ObjectKey& key) {
  note(Subject::endpoints);
  if (api_server_cache_ != nullptr) {
    api_server_cache_->forget(key);
  }
  model_.erase_slice(key);
}

void Intake::erase_node(const std::string& name) {
  own_node_ = own_node_ && name != node_;
  model_.erase_node(name);
}

void Intake::erase_service_cidr(const std::string& name) {
  service_cidrs_.erase(name);
  model_.erase_service_cidr(name);
}

std::vector<k8s::Prefix> Intake::cluster_ip_ranges() const {
  std::vector<k8s::Prefix> all;
  for (const auto& [name, ranges] : service_cidrs_) {
    all.insert(all.end(), ranges.begin(), ranges.end());
  }
  std::ranges::sort(all);
  return all;
}

void Intake::complain(k8s::Complaint complaint) { model_.complain(std::move(complaint)); }

void Intake::labels_known(const k8s::LabelKeys& keys) { model_.labels_known(keys); }

void Intake::flush() {
  model_.flush();
  finish_burst();
}

void Intake::synced() {
  listed_ = true;
  model_.synced();
  finish_burst();
}

}  // namespace lb::agent
