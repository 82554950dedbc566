// Makes the maps match the plan: applies batches, retries what failed, and reports each problem once. A
// failure of one service disturbs no other one and is not reported to any source. Each table has a class of
// its own (agent/tables/table_set.hpp), as have the order of a batch, retries and sizes.
#pragma once

#include <chrono>
#include <cstdint>
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

  /// What `store`, `grace` and `sweeper` refer to must outlive this; each problem of a service is reported
  /// once until it changes. `consistent_slots`: slots of a set of consistent selection.
  Tables(const maps::Store& store, maps::GracePeriod& grace, maps::Sweeper& sweeper, Complain complain,
         std::uint32_t consistent_slots = Sizes{}.consistent_slots);

  /// Reads everything that is pinned; writes nothing. Call it once, before the first apply().
  [[nodiscard]] maps::result<Adopted> adopt();

  /// Writes the differences. Before the first batch, which is Batch::whole, nothing is written.
  void apply(Batch batch, std::vector<PlanChange> changes) override;

  /// The complete list of this node's addresses; written once the first batch is. A ClusterIP among them is
  /// this node's, and packets to it that no service matches are left to the node.
  void set_addresses(std::vector<NodeAddress> addresses);
  /// One complete list that belongs to no service: LB_POD_RANGES, LB_CLUSTER_IP_RANGES or LB_XFRM_RANGES;
  /// written once the first batch is.
  void set_ranges(std::uint32_t list, const std::vector<k8s::Prefix>& ranges);
  /// The ports that source NAT must not use because of the kernel; the tables add the node ports. Written at
  /// once.
  void set_kernel_ports(const ReservedPorts::Bits& bits);

  /// Checks that the tables are still as they were written, and repairs what is not. Reads every entry in
  /// use; before the first batch it does nothing.
  [[nodiscard]] std::vector<Repaired> repair();

  /// Retries failed writes.
  void retry();
  /// How long to wait before the next retry(); nothing: all is written, or waits for a grace period only.
  [[nodiscard]] std::optional<std::chrono::milliseconds> retry_in() const;
  /// Whether the maps hold the complete plan.
  [[nodiscard]] bool complete() const;
  /// Whether a write for a service ("namespace/name") fails.
  [[nodiscard]] bool failed(const std::string& service) const;

  /// Sizes with which everything that did not fit would; see TableSizes.
  [[nodiscard]] std::optional<Sizes> larger() const;
  /// Sizes with a smaller lb_slots that still suffices, unless something waits to be written; see TableSizes.
  [[nodiscard]] std::optional<Sizes> smaller(std::uint32_t least) const;
  /// Moves sets to the first `limit` slots, only some of them if they are many: call it until it reports that
  /// all are there. False for good if one does not fit.
  [[nodiscard]] bool lower_slots(std::uint32_t limit);

  /// How full each table is.
  [[nodiscard]] std::vector<Fill> fills() const;
  [[nodiscard]] ExtentStats extents() const;
  /// The first `most` service ports by name that are planned or in the maps, and how many more there are.
  [[nodiscard]] std::pair<std::vector<ServiceStats>, std::uint64_t> services(std::size_t most) const;

 private:
  [[nodiscard]] std::vector<PlanChange> whole(std::vector<PlanChange> changes);
  void run(std::vector<PlanChange> changes);
  void rerun(Progress which);
  void report(ServiceOutcome outcome);
  void write_addresses();
  void report_addresses(const maps::error_code& error);
  void write_ranges();

  ProblemReports problems_;
  TableSet tables_;
  RetryQueue waiting_;
  TableSizes sizes_{tables_};
  BatchWriter writer_{tables_, sizes_};
  bool started_ = false;  ///< the first batch came
};

}  // namespace lb::agent
