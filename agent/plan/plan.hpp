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

/// Names one service number: a service port in one family (SEM-3, SEM-9).
struct ServicePortKey {
  std::string name;  ///< "namespace/name:port name"; ":port name" is absent for an unnamed port
  lb_protocol protocol = LB_TCP;
  lb_family family = LB_IPV4;
  auto operator<=>(const ServicePortKey&) const = default;
};

struct FrontendPlan {
  k8s::Address address;  ///< the family's zero for node ports: ::ffff:0.0.0.0 or ::
  std::uint16_t port = 0;
  lb_kind kind = LB_CLUSTER_IP;
  auto operator<=>(const FrontendPlan&) const = default;
};

/// Everything of one service port: at most as many backends as its slices have endpoints.
struct ServicePortPlan {
  ServicePortKey key;
  std::vector<FrontendPlan> frontends;  ///< sorted; those only that this service holds (SEM-82)
  lb_policy policy{};
  std::uint32_t affinity_seconds = 0;
  std::vector<k8s::Prefix> source_ranges;  ///< of its load-balancer addresses; empty: any client (SEM-37)
  BackendList backends;                    ///< sorted by the bytes of their "ip:port" text (SEM-29)
  bool operator==(const ServicePortPlan&) const;
};

/// Whether it is known what a service shall be. If not, what there is of it stays; only reported in a first
/// batch, which else ends what it does not name.
enum class Standing : std::uint8_t { planned, waiting };

/// All that one Service object is planned as from now on. Shared, because 100,000 backends are not copied.
struct PlanChange {
  std::string service;                                        ///< "namespace/name"
  std::vector<std::shared_ptr<const ServicePortPlan>> ports;  ///< sorted by key; empty: the service is gone
  Standing standing = Standing::planned;
};

/// Whether a batch is the whole of what shall exist, or what has changed since the one before.
enum class Batch : std::uint8_t { whole, changes };

/// Receives plans. The first call is Batch::whole, also when nothing is planned; every service that went
/// comes before every other one (REL-35).
class PlanSink {
 public:
  virtual ~PlanSink() = default;
  virtual void apply(Batch batch, std::vector<PlanChange> changes) = 0;
  /// Takes some changes of the first batch, which may be reported before it is whole: they are what apply()
  /// with Batch::whole has of them, unless a later call says otherwise. False: it takes none ahead, and
  /// `changes` is as it was.
  virtual bool prepare(std::vector<PlanChange>& /*changes*/) { return false; }
};

using Labels = std::vector<std::pair<std::string, std::string>>;  ///< sorted by key

/// An address and port where a process listens for TCP.
struct ListeningAddress {
  k8s::Address address;
  std::uint16_t port = 0;
  auto operator<=>(const ListeningAddress&) const = default;
};

/// The node as planning sees it.
struct NodeView {
  std::string name;
  std::string zone;                                  ///< empty: none
  Labels labels;                                     ///< of this node
  std::vector<k8s::Address> addresses;               ///< its own, sorted
  std::vector<k8s::Address> primary;                 ///< of the Node object, at most one a family (SEM-34)
  std::vector<k8s::Address> object_addresses;        ///< of the Node object, the internal ones first
  std::vector<k8s::Prefix> pod_ranges;               ///< of the Node object
  std::optional<lb_family> family;                   ///< of the Node object's first address
  std::vector<ListeningAddress> api_servers;         ///< sorted
  std::map<std::string, Labels, std::less<>> peers;  ///< labels of the other nodes, where they are known
};

/// The first internal, else the first external address of each family (SEM-34).
[[nodiscard]] std::vector<k8s::Address> primary_addresses(const k8s::Node& node);

/// All of the Node's addresses, the internal ones first.
[[nodiscard]] std::vector<k8s::Address> all_addresses(const k8s::Node& node);

/// May an external IP be one of this node's own addresses (REL-51)?
enum class OwnAddress : std::uint8_t { refuse, serve };

struct PlanOptions {
  /// Only Services with this value of the label service-proxy-name; empty: only those without it (SEM-1).
  std::string service_proxy_name;
  /// Where spec.externalIPs may lie; nothing given: anywhere, an empty list: nowhere (REL-51).
  std::optional<std::vector<k8s::Prefix>> external_ip_ranges;
  OwnAddress external_ip_on_node = OwnAddress::refuse;
  std::vector<k8s::Prefix> excluded;                     ///< addresses that another load balancer serves
  std::vector<lb_family> families = {LB_IPV4, LB_IPV6};  ///< nothing is planned for others (SEM-85)
  k8s::AllowedLabels topology_labels;  ///< as topology keys; a Service that asks for others is reported
  /// Of one Service: addresses times ports, and source ranges times ports; what goes beyond is reported.
  std::size_t most_frontends = default_service_frontends;
  k8s::Selection selection = k8s::Selection::random;  ///< for Services that do not say one
  /// Of all sets of consistent selection; a service port beyond them chooses at random, and is reported
  /// of.
  std::size_t consistent_tables = std::numeric_limits<std::size_t>::max();
};

/// A service port before its endpoints are looked at.
struct PortSpec {
  ServicePortPlan plan;   ///< without backends and without policy.local_empty
  std::string port_name;  ///< as slices name it
  TopologyMode topology = TopologyMode::hints;
  std::array<bool, 2> uses{};  ///< by lb_scope: some traffic is for this set (SEM-20)
};

/// Events on a Service that asks for more than one may have, or than there is: what the sentence says holds
/// on every node.
inline constexpr const char* too_many_frontends = "TooManyFrontends";
inline constexpr const char* no_consistent_selection = "ConsistentSelectionUnavailable";

struct ServiceSpec {
  std::vector<PortSpec> ports;          ///< sorted by key; no ports: nothing is programmed
  std::vector<std::string> complaints;  ///< what of the object was skipped, and why ("Our choices" J)
  std::vector<std::string> over_limit;  ///< of these, what lies beyond what one Service may have
};

/// Plans a service as if it were alone: collisions with others are not its matter (see
/// agent/plan/frontends.hpp).
[[nodiscard]] ServiceSpec spec(const k8s::Service& service, const NodeView& node, const PlanOptions& options);

class CandidateList;

/// The service port with its endpoints: sets, verdicts, backends (SEM-20, SEM-31). Candidates that were
/// completed before give the chunks of then where nothing changed.
[[nodiscard]] ServicePortPlan complete(const PortSpec& spec, CandidateList& candidates);

}  // namespace lb::agent
