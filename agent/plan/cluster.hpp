// The model: every relevant object, and which services need planning again. No I/O and no clock.
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
#include "agent/plan/plan.hpp"
#include "agent/plan/service_model.hpp"
#include "agent/plan/service_queue.hpp"
#include "agent/plan/trigger_times.hpp"
#include "agent/plan/work_budget.hpp"
#include "k8s/objects/source.hpp"

namespace lb::agent {

/// Takes what a source reports, and at each flush() passes the plans that changed to the PlanSink. Reports
/// nothing before synced(); that call makes the first, complete batch. Plans only services that a change
/// affects, and in turns where a callback is given that continues it: planning one service does not delay the
/// others.
class Cluster final : public k8s::Sink {
 public:
  using Complain = std::function<void(k8s::Complaint)>;

  /// `node`: this node's name, trimmed and in lower case (SEM-85). Complaints, its own and the source's, go
  /// to `complain`; its own are reported once for as long as they hold. `plans` must outlive the cluster.
  Cluster(std::string node, PlanOptions options, PlanSink& plans, Complain complain);

  void upsert(k8s::Service service) override;
  void upsert(k8s::EndpointSlice slice) override;
  void upsert(k8s::Node node) override;
  /// Known ranges of ClusterIPs change no service's plan (SEM-17).
  void upsert(k8s::ServiceCidr /*cidr*/) override {}
  void erase_service_cidr(const std::string& /*name*/) override {}
  void erase_service(const k8s::ObjectKey& key) override;
  void erase_slice(const k8s::ObjectKey& key) override;
  /// The own Node's last state stays (SEM-73).
  void erase_node(const std::string& name) override;
  void complain(k8s::Complaint complaint) override;
  /// Services that need other labels keep the plan that they have, or wait for their first one.
  void labels_known(const k8s::LabelKeys& keys) override;
  void flush() override;
  void synced() override;

  /// Addresses found on this node's devices, beside those of its Node object (REL-51). Takes effect at the
  /// next flush().
  void set_addresses(std::vector<k8s::Address> addresses);
  /// The addresses of the API servers, besides the endpoints of default/kubernetes: no service gets such a
  /// frontend (REL-51). Takes effect at the next flush().
  void set_api_servers(std::vector<ListeningAddress> addresses);

  /// From now on flush() and synced() do no more than a turn's work; for what is left they call `more` once,
  /// which shall have take_turn() called soon. The first plans are reported together, when all are made; of
  /// thousands some are reported ahead in each turn, where the sink takes them.
  void take_turns(std::function<void()> more, TurnLimits limits = {}) {
    more_ = std::move(more);
    limits_ = limits;
  }
  /// Specs are made first, in half of a turn if plans are to be made, too; then services are planned that
  /// have no part of a plan yet, then the one that has waited longest for its next part. All in the order in
  /// which they were marked: one that changes constantly delays no other.
  void take_turn();

  [[nodiscard]] const NodeView& node() const noexcept { return node_; }
  /// The plans of the first service after that name; nothing: there is none.
  [[nodiscard]] std::optional<PlanChange> plans_after(const std::string& service) const;
  [[nodiscard]] ClusterCounts counts() const;
  /// Is a service not planned because labels that it needs are not known?
  [[nodiscard]] bool waits() const noexcept { return !waiting_.empty(); }
  /// From now on keeps when slices' changes were caused, if later than this (Unix nanoseconds).
  void measure_triggers(std::int64_t after) { triggers_.start(after); }
  /// Those of all changes that have been planned; none while something waits for a flush(). Each is reported
  /// once.
  [[nodiscard]] TriggerTimes::Pending take_triggers();
  /// As of the last whole plan or flush().
  [[nodiscard]] const HealthChecks& health_checks() const noexcept { return health_checks_; }

 private:
  /// The facts about a slice besides its endpoints.
  struct Slice {
    std::string service;  ///< "namespace/name"
    k8s::Family family = k8s::Family::ipv4;
    std::int64_t trigger = 0;  ///< the last that was reported; 0: none
  };

  void note_triggers(const k8s::EndpointSlice& slice, Slice& known, Change change);
  ServiceModel& touch(const std::string& service);
  void upsert_own(const k8s::Node& node);
  void upsert_peer(k8s::Node node);
  enum class NodeRole : std::uint8_t { own, peers };
  void invalidate_labels(NodeRole role, std::string_view node, const k8s::LabelKeys& changed);
  [[nodiscard]] bool defer(const std::string& service, WorkBudget& work);
  void join_addresses();
  void join_api_servers();
  void invalidate_endpoints_at(const std::vector<k8s::Address>& addresses);
  void update_dirty_specs(WorkBudget& turn);
  void update_spec(std::string service, WorkBudget& work);
  [[nodiscard]] bool claim(const std::string& service, WorkBudget& work);
  void apply_cluster_ip_changes();
  [[nodiscard]] bool are_first_specs_made() const { return dirty_.is_past(first_specs_); }
  [[nodiscard]] bool postpone(const std::string& service);
  /// Services that were planned, and those of them whose plan changed.
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
  std::vector<ListeningAddress> asked_servers_;
  AddressBlocks blocks_;
  bool is_synced_ = false;
  std::map<std::string, std::unique_ptr<ServiceModel>> models_;
  std::unordered_map<std::string, Slice> slices_;  ///< by "namespace/name"
  std::set<std::string> services_;                 ///< those that have a Service object
  TriggerTimes triggers_;
  ServiceQueue dirty_;                 ///< to be derived
  ServiceQueue framed_;                ///< and then to be planned
  std::set<std::string> claimed_;      ///< of framed_, those whose claims took several turns
  std::set<std::string> put_off_;      ///< of dirty_, those looked at whose claims wait for a turn
  bool are_plans_next_ = false;        ///< specs were all of the last turn
  std::uint64_t first_specs_ = 0;      ///< the mark in dirty_ before which all first specs are
  std::uint64_t seen_specs_ = 0;       ///< the one of the last look at which addresses became ClusterIPs
  std::deque<std::string> under_way_;  ///< planned in part
  std::set<std::string> postponed_;    ///< to be derived once the plan that is under way is made
  std::function<void()> more_;         ///< null: everything is done at once
  TurnLimits limits_;
  bool asked_for_more_ = false;
  std::set<std::string> waiting_;  ///< services that are not planned for want of labels
  /// Of those of the first batch, those not planned since: what an earlier agent left of them stands until a
  /// plan is reported, also the plan that nothing is left.
  std::set<std::string> owed_;
  std::optional<k8s::LabelKeys> known_labels_;  ///< of other Nodes; nothing: all that are reported
  Frontends frontends_;
  ConsistentBudget consistent_budget_;
  HealthChecks health_checks_;
  std::map<std::string, ServiceModel::Sentences> reported_;  ///< complaints by service
  std::uint64_t complaint_count_ = 0;
  bool is_first_reported_ = false;            ///< the first plans, as one batch
  std::set<std::string> first_;               ///< services of it whose plans are to be reported
  std::unordered_set<std::string> prepared_;  ///< services of it that were reported ahead
  std::set<std::string> due_;                 ///< services of the start that have no plan yet
};

}  // namespace lb::agent
