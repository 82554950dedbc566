// SPDX-License-Identifier: Apache-2.0
// The model: all relevant objects, and which services must be planned again. No I/O and no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "agent/plan/address_blocks.hpp"
#include "agent/plan/cluster_counts.hpp"
#include "agent/plan/consistent_budget.hpp"
#include "agent/plan/frontends.hpp"
#include "agent/plan/local_routes.hpp"
#include "agent/plan/plan.hpp"
#include "agent/plan/service_model.hpp"
#include "agent/plan/service_queue.hpp"
#include "agent/plan/trigger_times.hpp"
#include "agent/plan/work_budget.hpp"
#include "k8s/objects/source.hpp"

namespace lb::agent {

/// Receives a source's reports, and at each flush() passes the changed plans to the PlanSink. Reports nothing
/// before synced(), which makes the first, whole batch. Plans only services that a change affects, and in
/// turns if a callback continues the work: planning one service does not delay the others.
class Cluster final : public k8s::Sink {
 public:
  using Complain = std::function<void(k8s::Complaint)>;

  /// `node`: this node's name, trimmed and in lower case (SEM-85). `complain` is called with complaints of
  /// the source and of this; the latter are reported once while they hold. `plans` must outlive the cluster.
  Cluster(std::string node, PlanOptions options, PlanSink& plans, Complain complain);

  void upsert(k8s::Service service) override;
  void upsert(k8s::EndpointSlice slice) override;
  void upsert(k8s::Node node) override;
  /// ServiceCIDRs do not affect any service's plan (SEM-17).
  void upsert(k8s::ServiceCidr /*cidr*/) override {}
  void erase_service_cidr(const std::string& /*name*/) override {}
  void erase_service(const k8s::ObjectKey& key) override;
  void erase_slice(const k8s::ObjectKey& key) override;
  /// The own Node's last state is kept (SEM-73).
  void erase_node(const std::string& name) override;
  void complain(k8s::Complaint complaint) override;
  /// Services that need unknown labels keep their plan, or wait for their first one.
  void labels_known(const k8s::LabelKeys& keys) override;
  void flush() override;
  void synced() override;

  /// Sets the addresses of this node's devices, in addition to those of its Node object (REL-51). Takes
  /// effect at the next flush().
  void set_addresses(std::vector<k8s::Address> addresses);
  /// Sets the broadcast addresses of this node's subnets, in addition to those of pods' ranges: they are no
  /// service's (REL-121). Takes effect at the next flush().
  void set_broadcasts(std::vector<k8s::Address> addresses);
  /// Sets the addresses of the API servers, in addition to the endpoints of default/kubernetes: no service
  /// gets such a frontend (REL-51). Takes effect at the next flush().
  void set_api_servers(std::vector<ListeningAddress> addresses);

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
    more_ = std::move(more);
    limits_ = limits;
  }
  /// Makes specs first, in half of a turn if there are also plans to make; then plans services without a
  /// partial plan, then the one that has waited longest for the next part of its plan. All in the order in
  /// which they were marked: a service that changes constantly does not delay others.
  void take_turn();

  /// Services with a complaint that is reported by this Event.
  [[nodiscard]] std::vector<std::string> complaining(std::string_view event) const;

  [[nodiscard]] const NodeView& node() const noexcept { return node_; }
  /// The plans of the first service after that name; nullopt if there is none.
  [[nodiscard]] std::optional<PlanChange> plans_after(const std::string& service) const;
  [[nodiscard]] ClusterCounts counts() const;
  /// Whether a service is not planned because labels that it needs are unknown.
  [[nodiscard]] bool waits() const noexcept { return !waiting_.empty(); }
  /// From now on keeps the trigger times of slices' changes later than this (Unix nanoseconds).
  void measure_triggers(std::int64_t after) { triggers_.start(after); }
  /// The trigger times of all planned changes, each reported once; empty while a change waits for a flush().
  [[nodiscard]] TriggerTimes::Pending take_triggers();
  /// The health checks at the last whole plan or flush().
  [[nodiscard]] const HealthChecks& health_checks() const noexcept { return health_checks_; }

 private:
  /// Facts about a slice besides its endpoints.
  struct Slice {
    std::string service;  ///< "namespace/name"
    k8s::Family family = k8s::Family::ipv4;
    std::int64_t trigger = 0;  ///< last reported trigger time; 0: none
  };

  void note_triggers(const k8s::EndpointSlice& slice, Slice& known, Change change);
  ServiceModel& touch(const std::string& service);
  void upsert_own(const k8s::Node& node);
  void upsert_peer(k8s::Node node);
  enum class NodeRole : std::uint8_t { own, peers };
  void invalidate_labels(NodeRole role, std::string_view node, const k8s::LabelKeys& changed);
  [[nodiscard]] bool defer(const std::string& service, WorkBudget& work);
  void join_addresses();
  void join_broadcasts();
  void join_api_servers();
  void invalidate_endpoints_at(const std::vector<k8s::Address>& addresses);
  void update_dirty_specs(WorkBudget& turn);
  void update_spec(std::string service, WorkBudget& work);
  [[nodiscard]] bool claim(const std::string& service, WorkBudget& work);
  void apply_cluster_ip_changes();
  [[nodiscard]] bool are_first_specs_made() const { return dirty_.is_past(first_specs_); }
  [[nodiscard]] bool postpone(const std::string& service);
  /// Planned services, and those of them whose plan changed.
  struct Planned {
    std::vector<std::string> all;
    std::vector<std::string> changed;
  };
  void replan_some(WorkBudget& turn, Planned& planned);
  void replan(const std::string& service, WorkBudget& turn, Planned& planned);
  [[nodiscard]] bool has_work() const;
  [[nodiscard]] bool has_plans_to_make() const;
  void ask_for_more();
  void work(WorkBudget turn);
  void report(const Planned& planned);
  void report_first(const Planned& planned);
  [[nodiscard]] bool prepare_first();
  [[nodiscard]] bool is_first_made() const;
  template <class Names>
  [[nodiscard]] std::vector<PlanChange> changes_of(const Names& finished) const;
  void note_health_check(const std::string& service, ServiceModel& model, WorkBudget& work);
  void report_complaints(const std::string& service, const ServiceModel& model);
  void forget_if_empty(const std::string& service);

  PlanOptions options_;
  PlanSink& plans_;
  Complain complain_;
  NodeView node_;
  std::vector<k8s::Address> device_addresses_;
  std::vector<k8s::Address> device_broadcasts_;
  std::vector<ListeningAddress> configured_api_servers_;
  AddressBlocks blocks_;
  LocalRoutes* routes_ = nullptr;
  bool is_synced_ = false;
  std::map<std::string, std::unique_ptr<ServiceModel>> models_;
  std::unordered_map<std::string, Slice> slices_;  ///< by "namespace/name"
  std::set<std::string> services_;                 ///< services with a Service object
  TriggerTimes triggers_;
  ServiceQueue dirty_;                       ///< services whose spec must be made
  ServiceQueue to_plan_;                     ///< services with a new spec, to be planned
  std::set<std::string> claimed_;            ///< services of to_plan_ whose claims took several turns
  std::set<std::string> drafted_;            ///< services of dirty_ whose drafted specs wait for a turn
  bool are_plans_next_ = false;              ///< the last turn was used up by specs
  std::uint64_t first_specs_ = 0;            ///< all first specs have marks in dirty_ below this
  std::uint64_t seen_specs_ = 0;             ///< next mark in dirty_ at the last apply_cluster_ip_changes()
  std::deque<std::string> under_way_;        ///< partially planned services
  std::set<std::string> respec_after_plan_;  ///< services whose spec must be made after the plan under way
  std::function<void()> more_;               ///< null: all work is done at once
  TurnLimits limits_;
  bool asked_for_more_ = false;
  std::set<std::string> waiting_;  ///< services not planned because labels are unknown
  /// Services that waited in the first batch and are not planned since: an earlier agent's entries of them
  /// stay until a plan is reported, even an empty one.
  std::set<std::string> reported_as_waiting_;
  std::optional<k8s::LabelKeys> known_labels_;  ///< of other Nodes; nullopt: all reported labels
  Frontends frontends_;
  ConsistentBudget consistent_budget_;
  HealthChecks health_checks_;
  std::map<std::string, ServiceModel::Messages> reported_;  ///< complaints by service
  std::uint64_t complaint_count_ = 0;
  bool is_first_reported_ = false;            ///< whether the first batch was reported
  std::set<std::string> first_batch_;         ///< services of the first batch whose plans must be reported
  std::unordered_set<std::string> prepared_;  ///< services of the first batch that were reported ahead
  std::set<std::string> unplanned_at_start_;  ///< services at the start without a plan yet
};

}  // namespace lb::agent
