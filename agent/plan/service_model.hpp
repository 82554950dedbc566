// SPDX-License-Identifier: Apache-2.0
// The state of one Service: its object, its slices, and the last plans made from them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/plan/address_blocks.hpp"
#include "agent/plan/cluster_counts.hpp"
#include "agent/plan/endpoints.hpp"
#include "agent/plan/frontends.hpp"
#include "agent/plan/health_check.hpp"
#include "agent/plan/plan.hpp"
#include "agent/plan/service_complaints.hpp"
#include "agent/plan/service_slices.hpp"
#include "agent/plan/work_budget.hpp"
#include "k8s/objects/model.hpp"

namespace lb::agent {

/// Reason of the Event for a Service with the external traffic policy Local whose clients' addresses are
/// lost.
inline constexpr const char* client_address_lost = "ClientAddressNotKept";

/// Slices and the object may be added and removed in any order; the work is done in spec() and replan(), once
/// for each burst.
class ServiceModel {
 public:
  /// `blocks` counts the endpoints of all services; it must outlive this.
  ServiceModel(std::string name, AddressBlocks& blocks) : name_(std::move(name)), slices_(blocks) {}

  Change set(k8s::Service service);
  void unset();
  Change put_slice(const k8s::EndpointSlice& slice) { return slices_.put(slice); }
  void erase_slice(const std::string& name) { slices_.erase(name); }
  /// Call when the node's labels, those of a peer, or the ClusterIPs at endpoints' addresses have changed
  /// since the endpoints were read.
  void invalidate_endpoints() noexcept { slices_.invalidate(); }
  /// Call when endpoints of this node at these addresses, which are sorted, may be reached by other devices
  /// than when they were read (LocalRoutes): reads their slices again. Returns whether there are any.
  Change reread_endpoints_at(const std::vector<k8s::Address>& sorted) { return slices_.reread_at(sorted); }
  /// Call when addresses of the node or of API servers have changed since the service's were compared with
  /// them.
  void invalidate_frontends() noexcept {
    spec_is_stale_ = true;
    draft_.reset();
  }

  /// The labels of other Nodes that planning needs.
  [[nodiscard]] k8s::LabelKeys peer_labels() const;
  /// Whether one of these labels is among the topology keys.
  [[nodiscard]] bool asks_for(const k8s::LabelKeys& labels) const;
  /// Whether one of the endpoints is on this node.
  [[nodiscard]] bool has_endpoints_on(std::string_view node) const { return slices_.names_node(node); }
  /// Whether one of the endpoints has one of these addresses, which are sorted.
  [[nodiscard]] bool has_endpoints_at(const std::vector<k8s::Address>& sorted) const {
    return slices_.has_one_of(sorted);
  }
  /// Appends the addresses and ports at which the endpoints listen for TCP.
  void append_listening(std::vector<ListeningAddress>& addresses) const {
    slices_.append_listening(addresses);
  }
  [[nodiscard]] bool has_object() const noexcept { return service_.has_value(); }
  [[nodiscard]] bool has_external_ips() const noexcept { return service_ && !service_->external_ips.empty(); }
  [[nodiscard]] bool has_load_balancer_ips() const noexcept {
    return service_ && !service_->load_balancer_ips.empty();
  }
  /// Whether one of the ClusterIPs is among these addresses, which are sorted.
  [[nodiscard]] bool has_cluster_ip(const std::vector<k8s::Address>& sorted) const;
  [[nodiscard]] std::size_t endpoint_count() const noexcept { return slices_.endpoint_count(); }
  /// Whether there is neither an object nor a slice nor a plan.
  [[nodiscard]] bool is_empty() const noexcept {
    return !service_ && slices_.empty() && ports_.empty() && plans_.empty() && !making_;
  }
  [[nodiscard]] std::int64_t created() const noexcept { return service_ ? service_->created : 0; }
  [[nodiscard]] std::string uid() const { return service_ ? service_->uid : std::string(); }
  /// The number of tables of consistent selection that each service port needs; empty if the service selects
  /// otherwise.
  [[nodiscard]] std::vector<std::size_t> consistent_tables() const;
  /// Sets how many service ports, from the first one on, may have their tables, for the next replan().
  void grant_consistent(std::size_t ports) noexcept { granted_ = ports; }

  /// Drafts the part of the next spec() that depends on no other service, by a check of each address, range
  /// and port; no-op if that was done since the last change. Returns the units of work.
  std::uint64_t draft_spec(const NodeView& node, const PlanOptions& options);
  /// Updates the service's own part and claims its frontends. Returns the other services whose frontends may
  /// have changed by that; they need a replan(). nullopt: the budget ended before all claims were made, and
  /// further calls continue. Until then replan() must not be called, and changes take effect with the
  /// following spec().
  [[nodiscard]] std::optional<std::set<std::string>> spec(const NodeView& node, const PlanOptions& options,
                                                          Frontends& frontends, WorkBudget& work);
  /// Whether a spec() is unfinished.
  [[nodiscard]] bool is_claiming() const noexcept { return claiming_.has_value(); }
  /// Updates the plans, after every changed service's spec(), as far as the budget allows. nullopt: further
  /// calls must continue. Until then the plans are unchanged, spec() must not be called, and changes take
  /// effect with the following replan(). `routes` may be null: every endpoint on this node is behind a
  /// device.
  [[nodiscard]] std::optional<Change> replan(const NodeView& node, const Frontends& frontends,
                                             WorkBudget& budget, LocalRoutes* routes = nullptr);
  /// Whether a replan() is unfinished.
  [[nodiscard]] bool is_under_way() const noexcept { return making_.has_value(); }
  /// Gives up a replan() under way; the next one begins anew.
  void give_up_plan();
  void count_no_local(NoLocal& counts) const;
  /// The plans of the last replan().
  [[nodiscard]] PlanChange plans() const { return {name_, plans_}; }
  /// The response to external load balancers; nullopt for a service without a health-check node port. Needs
  /// draft_spec(), but neither spec() nor replan(): its endpoints are known once its slices are. The first
  /// call reads all slices and spends `work`; later the endpoints are counted as slices are added and
  /// removed.
  [[nodiscard]] std::optional<HealthCheck> health_check(const NodeView& node, WorkBudget& work);
  /// The current complaints about the object.
  [[nodiscard]] ServiceComplaints::Messages complaints(const Frontends& frontends) const;

 private:
  struct Port {
    PortSpec spec;
    bool has_read_slices = false;  ///< candidates are those of all slices, but for later changes
    CandidateList candidates;
  };
  using Plan = ServicePlans::value_type;
  /// The state of a replan(), which works on the slices at its beginning.
  struct Making {
    SliceChanges slices;
    std::vector<SliceChange> all;  ///< only if some port reads all slices
    std::size_t port = 0;          ///< the port that reads slices, the next one is `slice`
    std::size_t slice = 0;
    ServicePlans plans;  ///< of the first ports
  };

  void adopt(std::vector<PortSpec> specs);
  [[nodiscard]] Making begin();
  [[nodiscard]] bool read_slices(const Viewpoint& view, WorkBudget& budget);
  [[nodiscard]] std::size_t read_some(Port& port, const std::vector<SliceChange>& changes, std::size_t from,
                                      const Viewpoint& view, WorkBudget& budget);
  [[nodiscard]] bool has_health_check() const noexcept;
  [[nodiscard]] lb_selection selection_of(std::size_t port) const;
  /// The plan of this port from the last replan(); null: it had none.
  [[nodiscard]] Plan last_plan(const ServicePortKey& key) const;
  [[nodiscard]] Plan plan_port(std::size_t at, const Frontends& frontends, WorkBudget& budget);

  std::string name_;
  std::optional<k8s::Service> service_;
  ServiceSlices slices_;
  bool spec_is_stale_ = false;
  std::optional<ServiceSpec> draft_;     ///< draft of the next spec
  std::optional<ServiceSpec> claiming_;  ///< the spec whose claims are under way
  std::vector<Port> ports_;              ///< sorted by key
  ServicePlans plans_;                   ///< of the last replan(); a later spec() may have other ports
  std::vector<std::string> spec_complaints_;
  std::vector<std::string> over_limit_;  ///< those of spec_complaints_ about the limit
  std::optional<Making> making_;
  std::size_t granted_ = 0;  ///< number of service ports that may have tables of consistent selection
};

}  // namespace lb::agent
