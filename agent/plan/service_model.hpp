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
#include "agent/plan/local_ready.hpp"
#include "agent/plan/plan.hpp"
#include "agent/plan/work_budget.hpp"
#include "k8s/objects/model.hpp"

namespace lb::agent {

enum class Change : std::uint8_t { none, some };

/// Slices and the object may be added and removed in any order; work is done in spec() and replan(), once
/// for each burst.
class ServiceModel {
 public:
  /// `blocks` knows the endpoints of all services; it must outlive this.
  ServiceModel(std::string name, AddressBlocks& blocks) : name_(std::move(name)), blocks_(blocks) {}

  Change set(k8s::Service service);
  void unset();
  Change put_slice(const k8s::EndpointSlice& slice);
  void erase_slice(const std::string& name);
  /// The node's labels, those of a peer, or the ClusterIPs at endpoints' addresses have changed since the
  /// endpoints were read.
  void invalidate_endpoints() noexcept { endpoints_ = Endpoints::all_stale; }
  /// The addresses of the node or of API servers have changed since its own were compared with them.
  void invalidate_frontends() noexcept {
    spec_is_stale_ = true;
    draft_.reset();
  }

  /// The labels of other Nodes that are needed to plan it.
  [[nodiscard]] k8s::LabelKeys peer_labels() const;
  /// Is one of these labels among its topology keys?
  [[nodiscard]] bool asks_for(const k8s::LabelKeys& labels) const;
  /// Is one of its endpoints on this node?
  [[nodiscard]] bool has_endpoints_on(std::string_view node) const;
  /// Does one of its endpoints have one of these addresses? They are sorted.
  [[nodiscard]] bool has_endpoints_at(const std::vector<k8s::Address>& sorted) const;
  /// Appends the addresses and ports at which its endpoints listen for TCP.
  void append_listening(std::vector<ListeningAddress>& addresses) const;
  [[nodiscard]] bool has_external_ips() const noexcept { return service_ && !service_->external_ips.empty(); }
  [[nodiscard]] bool has_load_balancer_ips() const noexcept {
    return service_ && !service_->load_balancer_ips.empty();
  }
  /// Is one of its ClusterIPs among these? They are sorted.
  [[nodiscard]] bool has_cluster_ip(const std::vector<k8s::Address>& sorted) const;
  [[nodiscard]] std::size_t endpoint_count() const noexcept { return endpoint_count_; }
  /// Nothing is known and nothing is planned.
  [[nodiscard]] bool is_empty() const noexcept {
    return !service_ && slices_.empty() && ports_.empty() && !round_;
  }
  [[nodiscard]] std::int64_t created() const noexcept { return service_ ? service_->created : 0; }
  /// The tables of consistent selection that each service port needs; none where the service selects
  /// otherwise.
  [[nodiscard]] std::vector<std::size_t> consistent_tables() const;
  /// How many service ports, from the first one on, may have them; for the next replan().
  void grant_consistent(std::size_t ports) noexcept { granted_ = ports; }

  /// Does the part of the next spec() that needs no other service, a check of each address, range and port;
  /// nothing, if that was done since the last change. Returns the units of work.
  std::uint64_t draft_spec(const NodeView& node, const PlanOptions& options);
  /// Updates the service's own part and claims its frontends. Returns the other services whose frontends may
  /// have changed because of it; they need a replan(). Nothing: the budget ended before all is claimed, and
  /// further calls go on. Until then replan() must not be called, and changes take effect with the following
  /// spec().
  [[nodiscard]] std::optional<std::set<std::string>> spec(const NodeView& node, const PlanOptions& options,
                                                          Frontends& frontends, WorkBudget& work);
  /// Is a spec() unfinished?
  [[nodiscard]] bool is_claiming() const noexcept { return claiming_.has_value(); }
  /// Has it changed since the last spec() began?
  [[nodiscard]] bool needs_spec() const noexcept { return spec_is_stale_; }
  /// Updates the plans, after every changed service's spec(), as far as the budget allows. Nothing: there is
  /// more to do, by further calls. Until then the plans are unchanged, spec() must not be called, and
  /// changes take effect with the following replan().
  [[nodiscard]] std::optional<Change> replan(const NodeView& node, const Frontends& frontends,
                                             WorkBudget& budget);
  /// Is a replan() unfinished?
  [[nodiscard]] bool is_under_way() const noexcept { return round_.has_value(); }
  void count_no_local(NoLocal& counts) const;
  /// The plans as of the last replan().
  [[nodiscard]] PlanChange plans() const;
  /// The answer to external load balancers; none for a service without a health-check node port. Needs
  /// draft_spec(), but no spec() and no replan(): its endpoints are known as soon as its slices are. The
  /// first call reads all of them, at the cost of `work`; after that they are counted as slices come and go.
  [[nodiscard]] std::optional<HealthCheck> health_check(const NodeView& node, WorkBudget& work);
  /// The current complaints about the object: sentences, each with the reason of the Event that reports it;
  /// empty: no Event does.
  using Sentences = std::map<std::string, std::string>;
  [[nodiscard]] Sentences complaints(const Frontends& frontends) const;

 private:
  enum class Endpoints : std::uint8_t { resolved, slices_changed, all_stale };
  enum class Seen : std::uint8_t { never, before };
  struct Port {
    PortSpec spec;
    Seen seen = Seen::never;
    CandidateList candidates;
    std::shared_ptr<const ServicePortPlan> plan;
  };

  void adopt(std::vector<PortSpec> specs);
  [[nodiscard]] bool has_endpoints_in_blocks_of(const std::vector<k8s::Address>& addresses) const;
  /// A slice before and after a change; null: it did not exist, or is removed.
  struct SliceChange {
    std::shared_ptr<const CompactSlice> gone;
    std::shared_ptr<const CompactSlice> fresh;
  };
  /// The state of a replan(), which works on the slices as of its beginning.
  struct Round {
    std::vector<SliceChange> changed;
    std::vector<SliceChange> all;  ///< only where some port takes them all in
    bool is_resolved = false;      ///< endpoints are what they were
    bool are_stale = false;        ///< all candidates are to be made again
    std::size_t port = 0;          ///< that takes slices in, the next ones from `slice` on
    std::size_t slice = 0;
    std::size_t planned = 0;  ///< ports
    std::vector<std::shared_ptr<const ServicePortPlan>> plans;
    Change change = Change::none;
  };

  [[nodiscard]] Round begin();
  void abandon_round();
  [[nodiscard]] bool resolve_endpoints(Round& round, const Viewpoint& view, WorkBudget& budget);
  [[nodiscard]] std::size_t take_in(Port& port, const std::vector<SliceChange>& changes, std::size_t from,
                                    const Viewpoint& view, WorkBudget& budget);
  void retire(const std::string& slice);
  [[nodiscard]] bool has_health_check() const noexcept;
  [[nodiscard]] lb_selection selection_of(std::size_t port) const;
  std::shared_ptr<const ServicePortPlan> replan(std::size_t at, std::vector<FrontendPlan> held,
                                                WorkBudget& budget);

  std::string name_;
  AddressBlocks& blocks_;
  std::optional<k8s::Service> service_;
  bool spec_is_stale_ = false;
  std::optional<ServiceSpec> draft_;     ///< of the next spec
  std::optional<ServiceSpec> claiming_;  ///< the spec whose claims are under way
  Endpoints endpoints_ = Endpoints::resolved;
  bool ports_went_ = false;
  std::vector<Port> ports_;  ///< sorted by key
  std::vector<std::string> spec_complaints_;
  std::vector<std::string> over_limit_;  ///< of these
  std::map<std::string, std::shared_ptr<const CompactSlice>> slices_;
  std::set<std::string> changed_slices_;
  std::map<std::string, std::set<std::string>>
      skipped_;  ///< sentences on endpoints that are services, by slice
  std::map<std::string, std::shared_ptr<const CompactSlice>>
      retired_;  ///< what candidates came from them is to go
  std::optional<Round> round_;
  std::size_t granted_ = 0;  ///< service ports that may have tables of consistent selection
  std::size_t endpoint_count_ = 0;
  std::optional<LocalReady> local_ready_;  ///< while it has a health check
};

}  // namespace lb::agent
