// Makes the kernel's tables match the plan, in an order that never shows a frontend without its backends, and
// owns the retries: what one service cannot get disturbs no other one and reaches no source.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/netlink/node_address.hpp"
#include "agent/options/config.hpp"
#include "agent/plan/plan.hpp"
#include "agent/tables/id_reclaimer.hpp"
#include "agent/tables/publisher.hpp"
#include "agent/tables/reserved_ports.hpp"
#include "agent/tables/snapshot.hpp"
#include "k8s/objects/source.hpp"
#include "maps/mapset.hpp"
#include "maps/mirror.hpp"

namespace lb::agent {

/// What was found pinned.
struct Adopted {
  std::size_t services = 0;
  std::size_t backends = 0;
  std::size_t frontends = 0;
};

class Tables final : public PlanSink {
 public:
  using Complain = std::function<void(k8s::Complaint)>;

  /// What `store`, `grace` and `sweeper` refer to must outlive this; each problem of a service is told once
  /// until it changes.
  /// `consistent_slots`: slots of a set of consistent selection.
  Tables(const maps::Store& store, maps::GracePeriod& grace, maps::Sweeper& sweeper, Complain complain,
         std::uint32_t consistent_slots = Sizes{}.consistent_slots);

  /// Reads all that is pinned; writes nothing. Call it once, before the first apply().
  [[nodiscard]] maps::result<Adopted> adopt();

  /// Writes what differs. Before the first batch, which is Batch::whole, nothing is written.
  void apply(Batch batch, std::vector<PlanChange> changes) override;

  /// The whole list of this node's addresses; written as soon as the first batch was. A ClusterIP among them
  /// is this node's, and what no service answers there is left to it.
  void set_addresses(std::vector<NodeAddress> addresses);
  /// The whole of one of the lists that belong to no service: LB_POD_RANGES, LB_CLUSTER_IP_RANGES or
  /// LB_XFRM_RANGES; written as soon as the first batch was.
  void set_ranges(std::uint32_t list, const std::vector<k8s::Prefix>& ranges);
  /// The ports that source NAT leaves to the kernel, to which the tables add the node ports; written at once.
  void set_kernel_ports(const ReservedPorts::Bits& bits) { reserved_ports_.set_kernel(bits); }

  /// Looks whether lb_frontends, lb_addresses, lb_ranges, lb_services, lb_slots and lb_backends are still as
  /// they were written, and puts right what is not. Reads every entry in use. How many were not, by table.
  struct Repaired {
    std::string table;
    std::size_t entries = 0;
    maps::error_code failure;
  };
  [[nodiscard]] std::vector<Repaired> repair();

  /// Tries again what failed.
  void retry();
  /// How long to wait before the next retry(); nothing: all is written, or waits for a grace period only.
  [[nodiscard]] std::optional<std::chrono::milliseconds> retry_in() const;
  /// Whether the kernel holds the whole plan.
  [[nodiscard]] bool complete() const { return pending_.empty() && !addresses_pending_ && !ranges_pending_; }

  /// Sizes with which what was refused for want of room would fit: of tables that were too small at least the
  /// double. Nothing: no table was, or none may grow (SEM-81).
  [[nodiscard]] std::optional<Sizes> larger() const;
  /// Sizes with an lb_slots that is enough for four times what is in use, and no smaller than `least`.
  /// Nothing: that would be no less than half of what it is.
  [[nodiscard]] std::optional<Sizes> smaller(std::uint32_t least) const;
  /// Moves sets to the first `limit` slots, and some of them only if they are many: to be called until it
  /// says that all are there. False for good where there is no room for one.
  [[nodiscard]] bool lower_slots(std::uint32_t limit);

  /// Whether the kernel refuses what is planned for a service ("namespace/name").
  [[nodiscard]] bool failed(const std::string& service) const;

  [[nodiscard]] std::vector<Fill> fills() const;
  [[nodiscard]] ExtentFigures extents() const;
  /// Of the service ports that are planned or in the maps, the first `most` by name; and how many more are.
  [[nodiscard]] std::pair<std::vector<ServiceFigures>, std::uint64_t> services(std::size_t most) const;

 private:
  /// An object may have 10,000 service ports. What was adopted without a name has no key.
  using Ports = std::multimap<ServicePortKey, std::unique_ptr<ServiceState>>;
  using Claims = FrontendKeys;
  enum class Pause : std::uint8_t { none, waiting, failed };
  struct PortWork;
  struct Work;

  // Adoption.
  struct Adoption;
  [[nodiscard]] maps::error_code adopt_names(Adoption& found);
  void adopt_frontends(Adoption& found);
  void adopt_ranges(Adoption& found);
  void adopt_backends(Adoption& found);
  void adopt_sets(const Adoption& found);
  /// Whether a number found in a map is one that we could have given.
  [[nodiscard]] bool usable(std::uint32_t number) const {
    return number > 0 && number < reclaimer_.service_pool().limit();
  }
  ServiceState& add_state(const ServicePortKey& key, std::uint32_t number);

  // Repair.
  [[nodiscard]] Damage repair_port(ServiceState& state, Shortage& shortage);

  // One batch.
  void run(std::vector<PlanChange> changes);
  void remove_frontends(Work& work, const Claims& claims);
  void publish_ports(Work& work);
  [[nodiscard]] std::vector<PortWork> unwritten_ports(const PlanChange& change) const;
  /// Whether all of a plan is in the tables, so that nothing of it need be looked at.
  [[nodiscard]] bool is_written(const ServiceState& state,
                                const std::shared_ptr<const ServicePortPlan>& plan) const;
  static void add_claims(Claims& claims, const PortWork& port);
  void publish_port(Work& work, PortWork& port);
  [[nodiscard]] bool point_frontends(Work& work, ServiceState& state, const ServicePortPlan& plan);
  void finish(Work& work);
  void retire_ports(Work& work);
  [[nodiscard]] bool retire_port(Work& work, ServiceState& state);
  [[nodiscard]] bool erase_frontend(Work& work, const ServiceState& state, const lb_frontend_key& key);
  [[nodiscard]] bool add_ranges(Work& work, ServiceState& state, const ServicePortPlan& plan);
  [[nodiscard]] bool remove_ranges(Work& work, ServiceState& state, const std::vector<lb_range_key>& wanted);
  [[nodiscard]] ServiceState* create_state(Work& work, const ServicePortPlan& plan);
  void report(Work& work);
  void fail(Work& work, std::string reason);
  void fall_short(Work& work, std::uint32_t Sizes::* table, const std::string& what);
  void note_short(std::uint32_t Sizes::* table);
  [[nodiscard]] Sizes sizes() const;
  [[nodiscard]] std::uint64_t waiting(std::uint32_t Sizes::* table) const;
  [[nodiscard]] ServiceState* find_state(const std::string& service, const ServicePortKey& key);
  [[nodiscard]] maps::error_code put_frontend(const lb_frontend_key& key, const lb_frontend& value);
  [[nodiscard]] maps::error_code remove_frontend(const lb_frontend_key& key);
  void count_address(const lb_frontend_key& key, const lb_frontend& value, int change);
  void count_node_port(const lb_frontend_key& key, int change);
  [[nodiscard]] maps::error_code write_address(const lb_address_key& key);
  void write_service_addresses();
  void write_addresses();
  void tell_addresses(const maps::error_code& error);
  void write_ranges();
  void resume();
  void rerun(Pause which);

  maps::Store store_;
  Complain complain_;
  maps::Mirror<lb_frontend_key, lb_frontend> frontends_;
  maps::Mirror<lb_address_key, lb_address> addresses_;
  maps::Mirror<lb_range_key, lb_range> ranges_;
  std::uint64_t takeovers_ = 0;  ///< how often a frontend passed from one service port to another
  ReservedPorts reserved_ports_;
  IdReclaimer reclaimer_;
  Publisher publisher_;

  std::unordered_map<std::string, Ports> services_;  ///< by "namespace/name"
  struct Pending {
    PlanChange change;
    Pause pause = Pause::failed;
  };
  std::map<std::string, Pending> pending_;
  std::unordered_map<std::string, std::string> reported_;
  using Addresses = boost::unordered_flat_set<lb_address_key, maps::HashBytes, maps::EqualBytes>;
  template <class Value>
  using ByAddress = boost::unordered_flat_map<lb_address_key, Value, maps::HashBytes, maps::EqualBytes>;
  ByAddress<lb_address_kind> node_addresses_;
  /// How many frontends are at an address.
  struct ServiceUse {
    std::uint32_t cluster = 0;  ///< as a ClusterIP
    std::uint32_t others = 0;
  };
  ByAddress<ServiceUse> service_addresses_;
  Addresses touched_addresses_;  ///< of services, whose entries this batch may change
  std::map<std::uint32_t, std::vector<lb_range_key>> wanted_ranges_;  ///< by list
  bool addresses_pending_ = false;
  bool ranges_pending_ = false;
  bool started_ = false;  ///< the first batch came
  unsigned failures_ = 0;
  std::vector<std::uint32_t Sizes::*> short_;  ///< tables that had no room for something at the last retry
};

/// "namespace/name" of a service port's name.
[[nodiscard]] std::string service_of(const std::string& service_port);

}  // namespace lb::agent
