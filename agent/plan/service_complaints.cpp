// SPDX-License-Identifier: Apache-2.0
// Complaints about Services.
#include "agent/plan/service_complaints.hpp"

#include <algorithm>
#include <utility>

#include "agent/plan/plan.hpp"

namespace lb::agent {
namespace {

bool has(const ServiceComplaints::Messages& messages, std::string_view event) {
  return std::ranges::any_of(messages, [&](const auto& message) { return message.second == event; });
}

}  // namespace

void ServiceComplaints::add(k8s::Complaint complaint) {
  if (complaint.type == k8s::ComplaintType::problem) {
    ++count_;
  }
  if (report_) {
    report_(std::move(complaint));
  }
}

void ServiceComplaints::set(const std::string& service, const std::string& uid, bool is_object,
                            Messages messages) {
  auto& reported = reported_[service];
  for (const auto& [reason, event] : messages) {
    if (!reported.contains(reason)) {
      add({"Service " + service, "", reason, event, uid});
    }
  }
  if (is_object && has(reported, frontend_lost) && !has(messages, frontend_lost)) {
    add({"Service " + service, "", "all of its frontends are served again", frontends_served, uid,
         k8s::ComplaintType::recovery});
  }
  reported = std::move(messages);
  if (reported.empty()) {
    reported_.erase(service);
  }
}

std::vector<std::string> ServiceComplaints::services_with(std::string_view event) const {
  std::vector<std::string> services;
  for (const auto& [service, messages] : reported_) {
    if (has(messages, event)) {
      services.push_back(service);
    }
  }
  return services;
}

}  // namespace lb::agent
