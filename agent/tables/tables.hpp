// SPDX-License-Identifier: Apache-2.0
// Makes the maps match the plan: applies batches, retries failed writes, and reports each problem once. A
// failure of one service does not affect others and is not reported to any source. Separate classes handle
// each table (agent/tables/table_set.hpp), the order of a batch, retries and sizes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/netlink/node_address.hpp"
#include "agent/options/config.hpp"
#include "agent/plan/plan.hpp"
#include "agent/tables/adoption.hpp"
#include "agent/tables/batch_writer.hpp"
#include "agent/tables/problem_reports.hpp"
#include "agent/tables/repair.hpp"
#include "agent/tables/reserved_ports.hpp"
#include "agent/tables/retry_queue.hpp"
#include "agent/tables/snapshot.hpp"
#include "agent/tables/table_set.hpp"
#include "agent/tables/table_sizes.hpp"
#include "k8s/objects/model.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

class Tables final : public PlanSink {
 public:
  using Complain = ProblemReports::Complain;

  /// The objects to which `store`, `grace` and `sweeper` refer must outlive this. Each problem of a service
  /// is reported once until it changes. `consistent_slots`: slots of a set with consistent selection.
  Tables(const maps::Store& store, maps::GracePeriod& grace, maps::Sweeper& sweeper, Complain complain,
         std::uint32_t consistent_slots = Sizes{}.consistent_slots);

  /// `changed` is called whenever backends or frontends of UDP services have changed, also if that was
  /// written by a retry or a repair, and after the first batch. Not called once its owner is gone: nothing is
  /// applied, retried or repaired after that.
  void on_udp_change(std::function<void()> changed) { udp_changed_ = std::move(changed); }

  /// Reads all pinned maps; writes nothing. Call it once, before the first apply().
  [[nodiscard]] maps::result<Adopted> adopt();

  /// Writes the differences. Nothing is written before the first batch, which is Batch::whole.
  void apply(Batch batch, std::vector<PlanChange> changes) override;

  /// Sets the complete list of this node's addresses; written after the first batch has arrived. A ClusterIP
  /// among them counts as a node address, and packets to it that no service matches go to the node.
  void set_addresses(std::vector<NodeAddress> addresses);
  /// Sets one complete list that belongs to no service: LB_POD_RANGES, LB_CLUSTER_IP_RANGES or
  /// LB_XFRM_RANGES; written after the first batch has arrived.
  void set_ranges(std::uint32_t list, const std::vector<k8s::Prefix>& ranges);
  /// Whether the map has all ranges of this list, as it was set last. Before the first batch: true, because
  /// the previous agent's ranges are still in use.
  [[nodiscard]] bool has_written(std::uint32_t list) const {
    return !started_ || tables_.ranges.is_whole(list);
  }
  /// Sets the ports that source NAT must not use because of the kernel; the tables add the node ports.
  /// Written at once.
  void set_kernel_ports(const ReservedPorts::Bits& bits);

  /// Checks that the tables still have their written values, and repairs differences. Reads every entry in
  /// use; does nothing before the first batch.
  [[nodiscard]] std::vector<Repaired> repair();

  /// Retries failed writes.
  void retry();
  /// Backoff before the next retry(); nullopt if everything is written, or only waits for a grace period.
  [[nodiscard]] std::optional<std::chrono::milliseconds> retry_in() const;
  /// Whether the maps hold the complete plan.
  [[nodiscard]] bool complete() const;
  /// No write of the last change was taken, for any service, and none since. Not set for what does not fit,
  /// nor for an error that only some services meet.
  [[nodiscard]] bool refuses_all() const noexcept { return refuses_all_; }
  /// Whether a write for a service ("namespace/name") failed.
  [[nodiscard]] bool failed(const std::string& service) const;

  /// Sizes at which everything would fit; see TableSizes.
  [[nodiscard]] std::optional<Sizes> larger() const;
  /// Sizes with a smaller lb_slots that still suffices, unless a plan waits to be written; see TableSizes.
  [[nodiscard]] std::optional<Sizes> smaller(std::uint32_t min_slots) const;
  /// Moves sets to the first `limit` slots, only some of them if they are many: call it until it returns
  /// true, when all are there. Stays false if a set does not fit.
  [[nodiscard]] bool lower_slots(std::uint32_t limit);

  /// Fill of each table.
  [[nodiscard]] std::vector<Fill> fills() const;
  [[nodiscard]] ExtentStats extents() const;
  /// The first `max_services` service ports by name that are planned or in the maps, and how many more there
  /// are.
  [[nodiscard]] std::pair<std::vector<ServiceStats>, std::uint64_t> services(std::size_t max_services) const;

 private:
  [[nodiscard]] std::vector<PlanChange> whole(std::vector<PlanChange> changes);
  void run(std::vector<PlanChange> changes);
  void rerun(Progress which);
  void note_refusal(const std::vector<ServiceOutcome>& written);
  void report(ServiceOutcome outcome);
  void write_addresses();
  void report_addresses(const maps::error_code& error);
  void write_ranges();
  void report_udp_change();

  ProblemReports problems_;
  TableSet tables_;
  RetryQueue waiting_;
  TableSizes sizes_{tables_};
  BatchWriter writer_{tables_, sizes_, waiting_};
  std::function<void()> udp_changed_;
  bool started_ = false;  ///< the first batch has arrived
  bool refuses_all_ = false;
  bool ranges_were_full_ = false;  ///< when the node's were written last
};

}  // namespace lb::agent
