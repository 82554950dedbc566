// SPDX-License-Identifier: Apache-2.0
// Reports each problem once, until it changes or ends. No map, no clock.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "k8s/objects/source.hpp"

namespace lb::agent {

class ProblemReports {
 public:
  using Complain = std::function<void(k8s::Complaint)>;
  explicit ProblemReports(Complain complain) : complain_(std::move(complain)) {}

  /// `subject` has one problem at a time; `object` is its name for operators, like "Service default/web".
  void report(const std::string& subject, const std::string& object, const std::string& reason) {
    if (std::exchange(reported_[subject], reason) == reason) {
      return;
    }
    complain_({.object = object, .where = {}, .reason = reason});
  }
  void end(const std::string& subject) { reported_.erase(subject); }

 private:
  Complain complain_;
  std::unordered_map<std::string, std::string> reported_;  ///< reasons, by subject
};

}  // namespace lb::agent
