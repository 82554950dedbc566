// SPDX-License-Identifier: Apache-2.0
// Asks the kernel how the endpoints of this node are reached, once for each, and again when routes, rules or
// served uplinks have changed, in turns.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/netlink/route_lookup.hpp"
#include "agent/plan/local_routes.hpp"

namespace lb::agent {

class LocalBackends final : public LocalRoutes {
 public:
  using Lookup = std::function<NextHop(const k8s::Address&)>;
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Addresses that are asked about, for all services (6 MB) and for one of them: a node has some hundred
  /// pods. Further ones count as behind a device.
  static constexpr std::size_t max_answers = 65536;
  static constexpr std::size_t max_answers_of_service = 1024;
  /// Lookups of one call of check(): some milliseconds, and less than a hundredth of a processor.
  static constexpr std::size_t lookups_of_check = 1024;
  /// The least time between two calls of check() that forget all answers to make room.
  static constexpr std::chrono::minutes memory{10};

  explicit LocalBackends(Lookup lookup) : lookup_(std::move(lookup)) {}

  /// The interface indices of the served uplinks; if they differ from the last ones, check() asks again.
  void set_uplinks(std::set<std::uint32_t> indices);
  /// Routes or rules have changed: check() asks again.
  void note_change() noexcept { changed_ = true; }

  [[nodiscard]] ReachedBy ask(std::string_view service, const k8s::Address& address) override;

  [[nodiscard]] std::uint64_t lookups() const noexcept override { return lookups_; }

  struct Changes {
    std::vector<k8s::Address> addresses;  ///< those whose answers have changed, sorted
    bool forgotten = false;               ///< all answers were forgotten, because there were too many
  };
  /// Call periodically.
  [[nodiscard]] Changes check(TimePoint now);

 private:
  [[nodiscard]] ReachedBy look_up(const k8s::Address& address) const;

  Lookup lookup_;
  std::set<std::uint32_t> uplinks_;
  std::map<k8s::Address, ReachedBy> answers_;
  std::map<std::string, std::size_t, std::less<>> answers_of_;  ///< by the service that asked first
  bool changed_ = false;
  bool is_full_ = false;              ///< an address was not asked about
  std::optional<k8s::Address> next_;  ///< from which on answers are still to be asked for again
  TimePoint forgot_{};
  std::uint64_t lookups_ = 0;
};

}  // namespace lb::agent
