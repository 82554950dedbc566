// SPDX-License-Identifier: Apache-2.0
// Writes the backends of one service port into the arrays: fills new extents, then publishes them by one
// store. Does not handle frontends, and makes no system calls, so it has no errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "agent/plan/plan.hpp"
#include "agent/tables/id_reclaimer.hpp"
#include "agent/tables/service_state.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

[[nodiscard]] BackendCounts count_backends(const ServicePortPlan& plan);

/// Entries of service ports that differ from their published values.
struct Damage {
  std::size_t services = 0;
  std::size_t slots = 0;
  std::size_t backends = 0;
  [[nodiscard]] bool any() const noexcept { return services + slots + backends > 0; }
  Damage& operator+=(const Damage& more) noexcept;
};

/// The table that is full; the service then keeps its previous state.
enum class Shortage : std::uint8_t { none, backends, slots };

class Publisher {
 public:
  /// `consistent_slots`: slots of a set with consistent selection.
  Publisher(const maps::Store& store, IdReclaimer& reclaimer, std::uint32_t consistent_slots);
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;
  ~Publisher();

  /// Publishes all or nothing. Changes nothing visible to programs until everything is reserved.
  [[nodiscard]] Shortage publish(ServiceState& state,
                                 const std::shared_ptr<const ServicePortPlan>& published);
  /// Call when the service has no frontends any more: empties its sets, retires its backends and slots, but
  /// not its number.
  void withdraw(ServiceState& state);
  /// Makes a service port without room for its plan admit only clients in its source ranges.
  void restrict_sources(ServiceState& state);
  /// Moves the sets of a service port that end after `limit` below it, if there is room; returns the number
  /// of moved slots.
  [[nodiscard]] std::uint32_t lower(ServiceState& state, std::uint32_t limit);
  /// Number of slots for the sets of a plan.
  [[nodiscard]] std::uint64_t slots(const ServicePortPlan& plan) const;
  /// Reads every entry of a service port with a plan, and counts differences.
  [[nodiscard]] Damage damage(const ServiceState& state);

 private:
  struct Draft;
  struct Entry;
  void match(const ServiceState& state, const ServicePortPlan& plan, Draft& draft);
  static void match_in_order(const ServiceState& state, const ServicePortPlan& plan, Draft& draft);
  void match_adopted(const ServiceState& state, const ServicePortPlan& plan, Draft& draft);
  void match_rest(const ServiceState& state, Draft& draft);
  [[nodiscard]] Shortage reserve(const ServiceState& state, const ServicePortPlan& plan, Draft& draft);
  [[nodiscard]] bool keeps_tables(const ServiceState& state, const ServicePortPlan& plan,
                                  const Draft& draft) const;
  [[nodiscard]] bool reserve_ids(Draft& draft);
  [[nodiscard]] bool reserve_extent(maps::Extent current, const std::vector<std::uint32_t>& ids,
                                    maps::Extent& next);
  void cancel(const ServiceState& state, const Draft& draft);
  void write_backends(const ServiceState& state, const Draft& draft);
  [[nodiscard]] bool lower_extent(maps::Extent& extent, std::uint32_t limit);
  void write_extent(maps::Extent current, maps::Extent next, const std::vector<std::uint32_t>& ids);
  void switch_sets(const ServiceState& state, const ServicePortPlan& plan, const Draft& draft);
  void end_backend(std::uint32_t id);
  [[nodiscard]] bool holds(maps::Extent extent, const std::vector<std::uint32_t>& ids) const;
  /// The sum of an extent's slots as they are in the map.
  [[nodiscard]] std::uint64_t sum_in(maps::Extent extent) const;
  [[nodiscard]] std::size_t damaged_slots(const ServiceState& state, lb_scope scope);
  [[nodiscard]] std::size_t differences(maps::Extent extent, const std::vector<std::uint32_t>& ids) const;

  maps::Store store_;
  IdReclaimer& reclaimer_;
  std::uint32_t consistent_slots_;
  std::unique_ptr<Draft> draft_;  ///< of the last publication; its memory is reused
};

}  // namespace lb::agent
