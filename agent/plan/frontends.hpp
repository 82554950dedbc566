// SPDX-License-Identifier: Apache-2.0
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

/// Rank of a kind; smaller is stronger: ClusterIP, load balancer, external IP, node port.
[[nodiscard]] int precedence(lb_kind kind) noexcept;

/// All claims of all services. A service holds a frontend if no stronger claim to it exists: by kind, then by
/// age of the Service object (unknown: youngest), then by "namespace/name", then by service port. Renewing
/// claims costs only what has changed.
class Frontends {
 public:
  struct Key {
    k8s::Address address;
    std::uint16_t port = 0;
    lb_protocol protocol = LB_TCP;
    auto operator<=>(const Key&) const = default;
  };

  /// The effects of claim().
  struct Changes {
    std::set<std::string> touched;  ///< other services that gained or lost a frontend
    /// Addresses of external IPs and load balancers that the service claimed or gave up.
    std::vector<k8s::Address> external_addresses;
  };
  /// Replaces all claims of a service, `created` in Unix seconds (0: unknown) as its age; without specs it
  /// claims nothing any more. Spends units for each claim added or removed, and fewer for unchanged ones.
  /// Returns nullopt if the budget ended before all were added and removed; further calls continue with these
  /// claims, whatever their arguments. Until then held(), lost() and use_of() must not be called for this
  /// service.
  std::optional<Changes> claim(const std::string& service, std::int64_t created,
                               std::span<const PortSpec> specs, WorkBudget& work);

  /// The frontends of a service port whose claims it holds.
  [[nodiscard]] std::vector<FrontendPlan> held(const std::string& service, const ServicePortPlan& plan) const;

  /// A message about the claims that a service has lost: the first of them, its holder, why that one has it,
  /// and the number of others; empty if none is lost.
  [[nodiscard]] std::string lost(const std::string& service) const;

  /// How an address and port are used, seen from endpoints of `service`. A ClusterIP belongs to its service
  /// on every port; of other addresses only the service's own count, because any Service may claim any
  /// address as an external IP.
  enum class Use : std::uint8_t { none, cluster_ip, own };
  [[nodiscard]] Use use_of(const Key& key, const std::string& service) const;

  /// Addresses that became a ClusterIP since the last call, or stopped being one, or both in turn; sorted.
  [[nodiscard]] std::vector<k8s::Address> take_changed();

  /// Number of claims that are currently lost.
  [[nodiscard]] std::size_t lost_count() const noexcept { return lost_; }

 private:
  struct OwnClaim {
    Key key;
    lb_kind kind = LB_CLUSTER_IP;
    std::uint32_t port = 0;  ///< an index into Claimant::ports
    auto operator<=>(const OwnClaim&) const = default;
  };
  struct Part {
    std::vector<OwnClaim> claims;
    std::size_t done = 0;  ///< number of processed claims
  };
  /// The progress of replacing a service's claims.
  struct Renewal {
    std::int64_t age = 0;
    std::vector<std::string> ports;
    std::vector<OwnClaim> claims;
    bool is_renamed = false;  ///< age or ports changed; true until the old claims are removed
    Part added;
    Part removed;
    Changes changes;
  };
  struct Claimant {
    std::string service;
    std::int64_t age = 0;
    std::vector<std::string> ports;  ///< ServicePortKey::name
    std::vector<OwnClaim> claims;    ///< sorted
    std::size_t lost = 0;            ///< number of lost claims
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
  [[nodiscard]] static const char* why(const Claim& holder, const Claim& loser) noexcept;
  using Others = std::set<Claim, Stronger>;
  /// Nearly every key has one claim; a key with many costs the logarithm of their number.
  struct Claims {
    Claim holder;
    std::unique_ptr<Others> others;  ///< null: no other claims
  };
  struct HashKey {
    using is_avalanching = void;
    std::size_t operator()(const Key& key) const noexcept;
  };

  [[nodiscard]] static Renewal renewal(const Claimant& before, std::int64_t created,
                                       std::span<const PortSpec> specs, WorkBudget& work);
  using Step = void (Frontends::*)(Claimant&, const OwnClaim&, WorkBudget&);
  [[nodiscard]] bool take(Claimant& claimant, Part& part, Step step, WorkBudget& work);
  [[nodiscard]] bool proceed(Claimant& claimant, WorkBudget& work);
  void add(Claimant& claimant, const OwnClaim& own, WorkBudget& work);
  void remove(Claimant& claimant, const OwnClaim& own, WorkBudget& work);
  void add_other(Claims& claims, const Claim& claim);
  void remove_other(Claims& claims, Others::iterator which);
  void count_cluster_ips(const Renewal& renewal);
  static void note(const OwnClaim& own, Changes& changes);

  boost::unordered_flat_map<Key, Claims, HashKey> by_key_;
  std::map<std::string, std::unique_ptr<Claimant>> claimants_;
  boost::unordered_flat_map<k8s::Address, std::uint32_t, AddressHash> cluster_ips_;  ///< number of claims
  std::set<k8s::Address> changed_;                                                   ///< see take_changed()
  std::size_t lost_ = 0;
};

}  // namespace lb::agent
