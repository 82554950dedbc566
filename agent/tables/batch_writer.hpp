// SPDX-License-Identifier: Apache-2.0
// Writes one batch of plans, in an order that never shows a frontend without its backends: remove frontends,
// switch sets, add frontends, retire numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/plan/plan.hpp"
#include "agent/tables/retry_queue.hpp"
#include "agent/tables/table_set.hpp"
#include "agent/tables/table_sizes.hpp"

namespace lb::agent {

/// A service of a batch, and the result of writing it.
struct ServiceOutcome {
  PlanChange change;
  Progress progress = Progress::written;
  std::uint64_t since = 0;           ///< the epoch of IdReclaimer in which it began to wait
  maps::error_code error;            ///< the first error
  std::string reason;                ///< its message
  TableSizes::Table full = nullptr;  ///< the last hash table that was full
};

class BatchWriter {
 public:
  /// All must outlive this.
  BatchWriter(TableSet& tables, TableSizes& sizes, const RetryQueue& waiting)
      : tables_(tables), sizes_(sizes), waiting_(waiting) {}

  /// Writes the differences. An error of one service does not affect others; what met a full hash table is
  /// written once more after the batch, if others have left it. Outcomes are in the order of
  /// `changes`. Does not write lb_addresses; retired ids and slots are not free before the caller's flush().
  [[nodiscard]] std::vector<ServiceOutcome> write(std::vector<PlanChange> changes);

 private:
  struct PortWork;
  struct Work;

  [[nodiscard]] std::vector<PortWork> unwritten_ports(const PlanChange& change) const;
  [[nodiscard]] static bool is_written(const ServiceState& state,
                                       const std::shared_ptr<const ServicePortPlan>& plan);
  static void add_claims(FrontendKeys& claims, const PortWork& port);
  [[nodiscard]] bool has_room_now(const Work& work) const;
  void write_again(Work& work);
  void remove_frontends(Work& work, const FrontendKeys& claims);
  void publish_ports(Work& work);
  void publish_port(Work& work, PortWork& port);
  void restrict_old_plan(Work& work, ServiceState& state, const ServicePortPlan& plan);
  [[nodiscard]] bool point_frontends(Work& work, ServiceState& state, const ServicePortPlan& plan);
  void finish(Work& work);
  void retire_ports(Work& work);
  [[nodiscard]] bool retire_port(Work& work, ServiceState& state);
  [[nodiscard]] bool erase_frontend(Work& work, const ServiceState& state, const lb_frontend_key& key);
  [[nodiscard]] bool add_ranges(Work& work, ServiceState& state, const ServicePortPlan& plan);
  [[nodiscard]] bool remove_ranges(Work& work, ServiceState& state, const std::vector<lb_range_key>& wanted);
  [[nodiscard]] ServiceState* create_state(Work& work, const ServicePortPlan& plan);
  void note_full(Work& work, const maps::error_code& error, TableSizes::Table table);
  static void fail(Work& work, const maps::error_code& error, std::string reason);
  void report_full(Work& work, TableSizes::Table table, const std::string& what);

  TableSet& tables_;
  TableSizes& sizes_;
  const RetryQueue& waiting_;
};

}  // namespace lb::agent
