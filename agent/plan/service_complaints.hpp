// SPDX-License-Identifier: Apache-2.0
// Complaints about Services, each reported once while it holds. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "k8s/objects/source.hpp"

namespace lb::agent {

class ServiceComplaints {
 public:
  using Report = std::function<void(k8s::Complaint)>;
  /// Messages, each with the reason of the Event that reports it; an empty reason: no Event.
  using Messages = std::map<std::string, std::string>;

  /// `report` may be null.
  explicit ServiceComplaints(Report report) : report_(std::move(report)) {}

  /// Reports one.
  void add(k8s::Complaint complaint);
  /// Replaces those about a Service, "namespace/name", and reports the new ones. `uid`: the object's, empty
  /// if there is no object.
  void set(const std::string& service, const std::string& uid, bool is_object, Messages messages);
  /// Services with a complaint that this Event reports.
  [[nodiscard]] std::vector<std::string> services_with(std::string_view event) const;
  /// Problems reported since the start.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

 private:
  Report report_;
  std::map<std::string, Messages> reported_;  ///< by service
  std::uint64_t count_ = 0;
};

}  // namespace lb::agent
