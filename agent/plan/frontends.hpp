// Decides which of several services gets an address and port that they all claim (SEM-82). Pure.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agent/plan/address_hash.hpp"
#include "agent/plan/plan.hpp"
#include "agent/plan/work_budget.hpp"

namespace lb::agent {

/// Smaller is stronger: ClusterIP, load balancer, external IP, node port.
[[nodiscard]] int precedence(lb_kind kind) noexcept;

/// All claims of all services. A service holds a frontend if no stronger claim to it exists: by kind, then by
/// age of the Service object (unknown: youngest), then by "namespace/name", then by service port. A renewed
/// claim costs what of it has changed.
class Frontends {
 public:
  struct Key {
    k8s::Address address;
    std::uint16_t port = 0;
    lb_protocol protocol = LB_TCP;
    auto operator<=>(const Key&) const = default;
  };

  /// What claim() has changed.
  struct Changes {
    std::set<std::string> touched;      ///< other services that now hold a frontend more or less
    std::vector<k8s::Address> outside;  ///< of the service: those but ClusterIPs that it claimed or gave up
  };
  /// Replaces all claims of a service, `created` in Unix seconds (0: unknown) as its age; no specs: it
  /// claims nothing more. Spends units for each claim that comes or goes, and less for those that stay.
  /// Nothing: work is over before all have come and gone, and further calls go on with these claims, whatever
  /// they are given. Until then held(), lost() and use_of() may not be asked about the service's own.
  std::optional<Changes> claim(const std::string& service, std::int64_t created,
                               std::span<const PortSpec> specs, WorkBudget& work);

  /// Those of a service port's claims that it holds.
  [[nodiscard]] std::vector<FrontendPlan> held(const std::string& service, const ServicePortPlan& plan) const;

  /// What a service has lost: one sentence that names the first of its claims and that one's holder, and how
  /// many more there are; empty: nothing.
  [[nodiscard]] std::string lost(const std::string& service) const;

  /// What an address and port are to the endpoints of `service`. On a ClusterIP every port is the service's;
  /// of all other addresses only its own matter, because any Service may claim any address as an external
  /// one.
  enum class Use : std::uint8_t { none, cluster_ip, own };
  [[nodiscard]] Use use_of(const Key& key, const std::string& service) const;

  /// Addresses that became a ClusterIP since the last call, or are one no more; sorted.
  [[nodiscard]] std::vector<k8s::Address> take_changed();

  /// How many claims are lost now.
  [[nodiscard]] std::size_t lost_count() const noexcept { return lost_; }

 private:
  struct Made {
    Key key;
    lb_kind kind = LB_CLUSTER_IP;
    std::uint32_t port = 0;  ///< an index into Claimant::ports
    auto operator<=>(const Made&) const = default;
  };
  struct Part {
    std::vector<Made> claims;
    std::size_t done = 0;  ///< of these
  };
  /// What becomes of a service's claims, as far as it has come.
  struct Renewal {
    std::int64_t age = 0;
    std::vector<std::string> ports;
    std::vector<Made> claims;
    bool is_renamed = false;  ///< by age or ports; until what was claimed under the old ones is gone
    Part come;
    Part gone;
    Changes changes;
  };
  struct Claimant {
    std::string service;
    std::int64_t age = 0;
    std::vector<std::string> ports;  ///< ServicePortKey::name
    std::vector<Made> claims;        ///< sorted
    std::size_t lost = 0;            ///< of these
    std::optional<Renewal> renewal;
  };
  struct Claim {
    Claimant* who = nullptr;
    std::uint32_t port = 0;
    lb_kind kind = LB_CLUSTER_IP;
    bool operator==(const Claim&) const = default;
  };
  struct Stronger {
    bool operator()(const Claim& left, const Claim& right) const noexcept;
  };
  using Others = std::set<Claim, Stronger>;
  /// Nearly every key has one claim; what many have in common costs the logarithm of how many they are.
  struct Claims {
    Claim holder;
    std::unique_ptr<Others> others;  ///< null: none
  };
  struct HashKey {
    using is_avalanching = void;
    std::size_t operator()(const Key& key) const noexcept;
  };

  [[nodiscard]] static Renewal renewal(const Claimant& before, std::int64_t created,
                                       std::span<const PortSpec> specs, WorkBudget& work);
  using Step = void (Frontends::*)(Claimant&, const Made&, WorkBudget&);
  [[nodiscard]] bool take(Claimant& claimant, Part& part, Step step, WorkBudget& work);
  [[nodiscard]] bool proceed(Claimant& claimant, WorkBudget& work);
  void add(Claimant& claimant, const Made& made, WorkBudget& work);
  void remove(Claimant& claimant, const Made& made, WorkBudget& work);
  void add_other(Claims& claims, const Claim& claim);
  void remove_other(Claims& claims, Others::iterator which);
  void count_cluster_ips(const Renewal& renewal);
  static void note(const Made& made, Changes& changes);

  boost::unordered_flat_map<Key, Claims, HashKey> by_key_;
  std::map<std::string, std::unique_ptr<Claimant>> claimants_;
  boost::unordered_flat_map<k8s::Address, std::uint32_t, AddressHash> cluster_ips_;  ///< claims to each
  std::map<k8s::Address, int> changes_;  ///< claims to ClusterIPs made, less those given up
  std::size_t lost_ = 0;
};

}  // namespace lb::agent
