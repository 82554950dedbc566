// SPDX-License-Identifier: Apache-2.0
// The desired contents of the maps for one service, computed only from objects and the node: pure, no fd,
// clock or socket.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/options/config.hpp"
#include "agent/plan/backends.hpp"
#include "agent/plan/topology.hpp"
#include "k8s/objects/model.hpp"
#include "k8s/objects/peer_labels.hpp"
#include "maps/abi/abi.h"

namespace lb::agent {

/// The identity of a service number: a service port in one family (SEM-3, SEM-9).
struct ServicePortKey {
  std::string name;  ///< "namespace/name:port name"; ":port name" is absent for an unnamed port
  lb_protocol protocol = LB_TCP;
  lb_family family = LB_IPV4;
  auto operator<=>(const ServicePortKey&) const = default;
};

struct FrontendPlan {
  k8s::Address address;  ///< the family's zero address for node ports: ::ffff:0.0.0.0 or ::
  std::uint16_t port = 0;
  lb_kind kind = LB_CLUSTER_IP;
  auto operator<=>(const FrontendPlan&) const = default;
};

/// The plan of one service port: at most as many backends as its slices have endpoints.
struct ServicePortPlan {
  ServicePortKey key;
  std::vector<FrontendPlan> frontends;  ///< sorted; only those that this service holds (SEM-82)
  lb_policy policy{};
  std::uint32_t affinity_seconds = 0;
  std::vector<k8s::Prefix> source_ranges;  ///< for its load-balancer addresses; empty: any client (SEM-37)
  BackendList backends;                    ///< sorted by the bytes of their "ip:port" text (SEM-29)
  bool operator==(const ServicePortPlan&) const;
};

/// Whether the wanted state of a service is known. If not, its present state stays; reported only in a first
/// batch, which otherwise removes services that it does not contain.
enum class PlanState : std::uint8_t { planned, waiting };

/// The plans of one service, sorted by key. Shared, because 100,000 backends are not copied.
using ServicePlans = std::vector<std::shared_ptr<const ServicePortPlan>>;

/// The complete new plan of one Service object.
struct PlanChange {
  std::string service;  ///< "namespace/name"
  ServicePlans ports;   ///< empty: removed
  PlanState state = PlanState::planned;
};

/// Whether a batch is the complete plan, or the changes since the previous batch.
enum class Batch : std::uint8_t { whole, changes };

/// Receives plans. The first call is Batch::whole, even if nothing is planned; removed services come before
/// all others (REL-35).
class PlanSink {
 public:
  virtual ~PlanSink() = default;
  virtual void apply(Batch batch, std::vector<PlanChange> changes) = 0;
  /// Takes some changes of the first batch before it is whole. They count as part of apply() with
  /// Batch::whole, unless a later call replaces them. Returns false, and leaves `changes` as it was, if the
  /// sink takes none ahead.
  virtual bool prepare(std::vector<PlanChange>& /*changes*/) { return false; }
};

using Labels = std::vector<std::pair<std::string, std::string>>;  ///< sorted by key

/// An address and port at which a process listens for TCP.
struct ListeningAddress {
  k8s::Address address;
  std::uint16_t port = 0;
  auto operator<=>(const ListeningAddress&) const = default;
};

/// The facts about the node that planning uses.
struct NodeView {
  std::string name;
  std::string zone;                                  ///< empty: none
  Labels labels;                                     ///< of this node
  std::vector<k8s::Address> addresses;               ///< the node's own, sorted
  std::vector<k8s::Address> broadcasts;              ///< of the node's and its pods' subnets, sorted
  std::vector<k8s::Address> primary;                 ///< of the Node object, at most one a family (SEM-34)
  std::vector<k8s::Address> object_addresses;        ///< of the Node object, the internal ones first
  std::vector<k8s::Prefix> pod_ranges;               ///< of the Node object
  std::optional<lb_family> family;                   ///< of the Node object's first address
  std::vector<ListeningAddress> api_servers;         ///< sorted
  std::map<std::string, Labels, std::less<>> peers;  ///< labels of the other nodes, if known
};

/// The first internal, else the first external address of each family (SEM-34).
[[nodiscard]] std::vector<k8s::Address> primary_addresses(const k8s::Node& node);

/// All of the Node's addresses, the internal ones first.
[[nodiscard]] std::vector<k8s::Address> all_addresses(const k8s::Node& node);

struct PlanOptions {
  /// Only Services with this value of the label service-proxy-name; empty: only those without it (SEM-1).
  std::string service_proxy_name;
  /// Allowed ranges of spec.externalIPs; nullopt: all, an empty list: none (REL-51). An address that a device
  /// of the node has is allowed only inside a range of more than 0 bits, one of the Node object only by
  /// itself.
  std::optional<std::vector<k8s::Prefix>> external_ip_ranges;
  std::vector<k8s::Prefix> excluded;                     ///< addresses that another load balancer serves
  std::vector<k8s::Prefix> pod_ranges;                   ///< of the whole cluster, as configured
  std::vector<lb_family> families = {LB_IPV4, LB_IPV6};  ///< other families are not planned (SEM-85)
  k8s::AllowedLabels topology_labels;  ///< allowed topology keys; a Service with others is reported
  /// Limit for one Service: addresses times ports, and source ranges times ports; the excess is reported.
  std::size_t max_frontends = default_service_frontends;
  k8s::Selection selection = k8s::Selection::random;  ///< for Services that do not specify one
  /// Limit of all tables of consistent selection; service ports beyond it select at random, and are reported.
  std::size_t consistent_tables = std::numeric_limits<std::size_t>::max();
};

/// A service port without its endpoints.
struct PortSpec {
  ServicePortPlan plan;   ///< without backends and without policy.local_empty
  std::string port_name;  ///< port name in slices
  TopologyMode topology = TopologyMode::hints;
  std::array<bool, 2> uses{};  ///< by lb_scope: whether some traffic uses this set (SEM-20)
};

/// Reasons of Events for a Service that exceeds its limits or those of the tables, or claims a frontend of
/// another one: their message is valid on every node.
inline constexpr const char* too_many_frontends = "TooManyFrontends";
inline constexpr const char* frontend_lost = "FrontendHeldByAnotherService";
inline constexpr const char* frontends_served = "FrontendsServedAgain";  ///< after frontend_lost
inline constexpr const char* no_consistent_selection = "ConsistentSelectionUnavailable";

struct ServiceSpec {
  std::vector<PortSpec> ports;          ///< sorted by key; empty: nothing is programmed
  std::vector<std::string> complaints;  ///< skipped parts, with reasons (docs/semantics.md, choice J)
  std::vector<std::string> over_limit;  ///< those of `complaints` about the limit of one Service
};

/// Plans a service without regard to other services: agent/plan/frontends.hpp resolves conflicts.
[[nodiscard]] ServiceSpec spec(const k8s::Service& service, const NodeView& node, const PlanOptions& options);

class CandidateList;

/// Completes the service port with its endpoints: sets, verdicts, backends (SEM-20, SEM-31). Where candidates
/// have not changed since the last call, the chunks are shared.
[[nodiscard]] ServicePortPlan complete(const PortSpec& spec, CandidateList& candidates);

}  // namespace lb::agent
