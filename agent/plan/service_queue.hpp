// SPDX-License-Identifier: Apache-2.0
// A queue of services in the order in which they were first marked. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

namespace lb::agent {

/// A service that is marked again keeps its position, so a service that changes often gets its turn and does
/// not delay the others.
class ServiceQueue {
 public:
  void push(const std::string& service) {
    if (marks_.try_emplace(service, next_).second) {
      order_.emplace(next_++, service);
    }
  }

  template <class Names>
  void push_all(const Names& services) {
    for (const auto& service : services) {
      push(service);
    }
  }

  /// The queue must not be empty.
  [[nodiscard]] const std::string& front() const { return order_.begin()->second; }

  bool erase(const std::string& service) {
    const auto found = marks_.find(service);
    if (found == marks_.end()) {
      return false;
    }
    order_.erase(found->second);
    marks_.erase(found);
    return true;
  }

  [[nodiscard]] bool contains(const std::string& service) const { return marks_.contains(service); }
  [[nodiscard]] bool empty() const noexcept { return order_.empty(); }
  /// Marks are numbered. Whether all services marked before `mark` are gone.
  [[nodiscard]] bool is_past(std::uint64_t mark) const { return empty() || order_.begin()->first >= mark; }
  [[nodiscard]] std::uint64_t next_mark() const noexcept { return next_; }

 private:
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, std::string> order_;
  std::unordered_map<std::string, std::uint64_t> marks_;
};

}  // namespace lb::agent
