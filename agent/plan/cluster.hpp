// SPDX-License-Identifier: Apache-2.0
// The model: all relevant objects, and which services must be planned again. No I/O and no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/plan/address_blocks.hpp"
#include "agent/plan/cluster_counts.hpp"
#include "agent/plan/local_routes.hpp"
#include "agent/plan/node_facts.hpp"
#include "agent/plan/plan.hpp"
#include "agent/plan/service_complaints.hpp"
#include "agent/plan/service_records.hpp"
#include "agent/plan/shared_claims.hpp"
#include "agent/plan/slice_index.hpp"
#include "agent/plan/turns.hpp"
#include "agent/plan/whole_batch.hpp"
#include "k8s/objects/source.hpp"

namespace lb::agent {

/// Receives a source's reports, and at each flush() passes the changed plans to the PlanSink. Reports nothing
/// before synced(), which makes the first, whole batch. Plans only services that a change affects, and in
/// turns if a callback continues the work: planning one service does not delay the others. What is to be done
/// for a Service is its stage (agent/plan/stage.hpp).
class Cluster final : public k8s::Sink {
 public:
  using Complain = ServiceComplaints::Report;

  /// `node`: this node's name, trimmed and in lower case (SEM-85). `complain` is called with complaints of
  /// the source and of this; the latter are reported once while they hold. `plans` must outlive the cluster.
  Cluster(std::string node, PlanOptions options, PlanSink& plans, Complain complain);

  void upsert(k8s::Service service) override;
  void upsert(k8s::EndpointSlice slice) override;
  void upsert(k8s::Node node) override { invalidate(node_.set(std::move(node))); }
  /// ServiceCIDRs do not affect any service's plan (SEM-17).
  void upsert(k8s::ServiceCidr /*cidr*/) override {}
  void erase_service_cidr(const std::string& /*name*/) override {}
  void erase_service(const k8s::ObjectKey& key) override;
  void erase_slice(const k8s::ObjectKey& key) override;
  /// The own Node's last state is kept (SEM-73).
  void erase_node(const std::string& name) override { invalidate(node_.erase(name)); }
  void complain(k8s::Complaint complaint) override { complaints_.add(std::move(complaint)); }
  /// Services that need unknown labels keep their plan, or wait for their first one.
  void labels_known(const k8s::LabelKeys& keys) override { invalidate(node_.labels_known(keys)); }
  void flush() override;
  void synced() override;

  /// See NodeFacts; all take effect at the next flush().
  void set_addresses(std::vector<k8s::Address> addresses) {
    invalidate(node_.set_addresses(std::move(addresses)));
  }
  void set_broadcasts(std::vector<k8s::Address> addresses) {
    invalidate(node_.set_broadcasts(std::move(addresses)));
  }
  void set_api_servers(std::vector<ListeningAddress> addresses) {
    invalidate(node_.set_api_servers(std::move(addresses)));
  }

  /// From now on planning asks how endpoints of this node are reached. `routes` must outlive this.
  void ask_routes(LocalRoutes& routes) noexcept { routes_ = &routes; }
  /// The answers about these addresses, which are sorted, have changed. Takes effect at the next flush().
  void routes_changed(const std::vector<k8s::Address>& sorted);
  /// All answers were forgotten, and are asked for again at the next flush().
  void routes_forgotten();

  /// From now on flush() and synced() work for at most one turn; if work is left, they call `more` once,
  /// which must arrange that take_turn() is called soon. The first plans are reported together, once all are
  /// made; if there are thousands, some are reported ahead in each turn, if the sink accepts them.
  void take_turns(std::function<void()> more, TurnLimits limits = {}) {
    turns_.divide(std::move(more), limits);
  }
  /// Reads objects first, in half of a turn if there are also plans to make; then plans services without a
  /// partial plan, then the one that has waited longest for the next part of its plan.
  void take_turn();

  /// Services with a complaint that is reported by this Event.
  [[nodiscard]] std::vector<std::string> complaining(std::string_view event) const {
    return complaints_.services_with(event);
  }

  [[nodiscard]] const NodeView& node() const noexcept { return node_.view(); }
  /// The plans of the first service after that name; nullopt if there is none.
  [[nodiscard]] std::optional<PlanChange> plans_after(const std::string& service) const;
  [[nodiscard]] ClusterCounts counts() const;
  [[nodiscard]] const ServiceRecords& services() const noexcept { return services_; }
  /// Whether a service is not planned because labels that it needs are unknown.
  [[nodiscard]] bool waits() const { return services_.lacking_labels() > 0; }
  /// From now on keeps the trigger times of slices' changes later than this (Unix nanoseconds).
  void measure_triggers(std::int64_t after) { slices_.measure_triggers(after); }
  /// The trigger times of all planned changes, each reported once; empty while a change waits for a flush().
  [[nodiscard]] TriggerTimes::Pending take_triggers();
  /// The health checks at the last whole plan or flush().
  [[nodiscard]] const HealthChecks& health_checks() const noexcept { return health_checks_; }

 private:
  void changed(ServiceRecord& record);
  void invalidate(const NodeChange& change);
  [[nodiscard]] static bool concerns_endpoints(const NodeChange& change, const ServiceModel& model);
  [[nodiscard]] static bool concerns_frontends(const NodeChange& change, const ServiceModel& model);
  void invalidate_endpoints_at(const std::vector<k8s::Address>& addresses);
  void read_api_servers();

  [[nodiscard]] bool has_work() const;
  [[nodiscard]] bool has_plans_to_make() const;
  [[nodiscard]] bool are_first_objects_read() const;
  void work();
  void read_objects(WorkBudget& turn);
  void read(ServiceRecord& record, WorkBudget& work);
  [[nodiscard]] bool put_off(ServiceRecord& record, WorkBudget& work);
  void apply_cluster_ip_changes();
  /// Planned services, and those of them whose plan changed.
  struct Planned {
    std::vector<std::string> all;
    std::vector<std::string> changed;
  };
  void plan_some(WorkBudget& turn, Planned& planned);
  void plan(ServiceRecord& record, WorkBudget& turn, Planned& planned);
  void note_health_check(ServiceRecord& record, WorkBudget& work);
  void report(const Planned& planned);
  void report_first();
  [[nodiscard]] bool report_ahead();
  template <class Names>
  [[nodiscard]] std::vector<PlanChange> changes_of(const Names& finished) const;

  PlanOptions options_;
  PlanSink& plans_;
  LocalRoutes* routes_ = nullptr;
  ServiceComplaints complaints_;
  NodeFacts node_;
  AddressBlocks blocks_;
  ServiceRecords services_;
  SliceIndex slices_;
  SharedClaims claims_;
  HealthChecks health_checks_;
  WholeBatch first_;
  Turns turns_;
};

}  // namespace lb::agent
