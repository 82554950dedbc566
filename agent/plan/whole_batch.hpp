// SPDX-License-Identifier: Apache-2.0
// The first batch: reported as a whole once every Service that existed at the start has a plan. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lb::agent {

class WholeBatch {
 public:
  /// These must be planned, or put off, before the batch is complete. `position`: see first_position().
  void begin(std::set<std::string> services, std::uint64_t position) {
    has_begun_ = true;
    awaited_ = std::move(services);
    position_ = position;
  }
  /// In ServiceRecords: those to be read before it must all be, before any is planned.
  [[nodiscard]] std::uint64_t first_position() const noexcept { return position_; }
  [[nodiscard]] bool has_begun() const noexcept { return has_begun_; }
  /// A Service that came later is included, but not waited for.
  void planned(const std::string& service, bool has_changed) {
    awaited_.erase(service);
    if (has_changed && !is_reported_) {
      changed_.insert(service);
    }
  }
  void put_off(const std::string& service) { awaited_.erase(service); }
  [[nodiscard]] bool is_complete() const { return has_begun_ && awaited_.empty(); }
  [[nodiscard]] bool is_reported() const noexcept { return is_reported_; }
  [[nodiscard]] bool is_due() const { return !is_reported_ && is_complete(); }

  [[nodiscard]] std::size_t size() const noexcept { return changed_.size(); }
  /// The first `count` Services, to be reported ahead; put_back() if they cannot be.
  [[nodiscard]] std::vector<std::string> take(std::size_t count);
  void reported_ahead(const std::vector<std::string>& services) {
    ahead_.insert(services.begin(), services.end());
  }
  void put_back(const std::vector<std::string>& services) {
    changed_.insert(services.begin(), services.end());
  }
  [[nodiscard]] bool was_reported_ahead(const std::string& service) const { return ahead_.contains(service); }

  /// The batch is reported now. Returns what is left of it. `waiting`: put off, and so in no plan until they
  /// are planned: an earlier agent's entries of them stay.
  [[nodiscard]] std::set<std::string> report(std::set<std::string> waiting) {
    is_reported_ = true;
    waiting_ = std::move(waiting);
    return std::exchange(changed_, {});
  }
  void forget_reported_ahead() { ahead_.clear(); }
  /// Whether the Service was put off in the reported batch, and is planned for the first time now.
  [[nodiscard]] bool has_waited(const std::string& service) { return waiting_.erase(service) > 0; }
  [[nodiscard]] const std::set<std::string>& waiting() const noexcept { return waiting_; }

 private:
  bool has_begun_ = false;
  bool is_reported_ = false;
  std::uint64_t position_ = 0;
  std::set<std::string> awaited_;
  std::set<std::string> changed_;  ///< of the batch, not yet reported
  std::unordered_set<std::string> ahead_;
  std::set<std::string> waiting_;
};

inline std::vector<std::string> WholeBatch::take(std::size_t count) {
  std::vector<std::string> some;
  while (some.size() < count && !changed_.empty()) {
    some.push_back(std::move(changed_.extract(changed_.begin()).value()));
  }
  return some;
}

}  // namespace lb::agent
