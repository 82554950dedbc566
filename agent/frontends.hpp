// Who holds an address and port that several services claim (SEM-82). Pure.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/plan.hpp"

namespace lb::agent {

/// Smaller is stronger: ClusterIP, load balancer, external IP, node port.
[[nodiscard]] int precedence(lb_kind kind) noexcept;

/// All claims of all services. A service holds a frontend if no stronger claim to it exists: by kind, then by
/// age of the Service object (unknown: youngest), then by "namespace/name", then by service port.
class Frontends {
 public:
  struct Place {
    k8s::Address address;
    std::uint16_t port = 0;
    lb_protocol protocol = LB_TCP;
    auto operator<=>(const Place&) const = default;
  };

  /// Replaces all claims of a service, `created` in Unix seconds (0: unknown) as its age; no frames: it
  /// claims nothing more. Returns the other services whose frontends may have come or gone by it.
  std::set<std::string> claim(const std::string& service, std::int64_t created,
                              std::span<const PortFrame> frames);

  /// Those of a service port's claims that it holds.
  [[nodiscard]] std::vector<FrontendPlan> held(const std::string& service, const ServicePortPlan& plan) const;

  /// One sentence for each claim that a service has lost, naming the holder.
  [[nodiscard]] std::vector<std::string> lost(const std::string& service) const;

  /// What a place is to those who send there: on a ClusterIP every port is the service's.
  enum class Use : std::uint8_t { none, cluster_ip, outside };
  [[nodiscard]] Use use_of(const Place& place) const;

  /// Addresses that were claimed or given up since the last call, sorted; those of a claim that was only
  /// renewed are not among them.
  [[nodiscard]] std::vector<k8s::Address> take_changed();

  /// How many claims are lost now.
  [[nodiscard]] std::size_t lost_count() const noexcept { return lost_; }

 private:
  struct Claim {
    int precedence = 0;
    std::int64_t created = 0;
    std::string service;
    std::string port_name;  ///< ServicePortKey::name
    lb_kind kind = LB_CLUSTER_IP;
    auto operator<=>(const Claim&) const = default;
  };
  using Claims = std::set<Claim>;  ///< the first one holds the place

  /// How many claims there are to an address, node ports' apart.
  struct Uses {
    std::uint32_t claims = 0;
    std::uint32_t cluster_ips = 0;
  };
  struct HashAddress {
    std::size_t operator()(const k8s::Address& address) const noexcept;
  };

  void note(const Place& place, const Claim& claim);
  void unnote(const Place& place, const Claim& claim);
  void withdraw(const std::string& service, std::set<std::string>& touched);
  void add(const Place& place, Claim claim, std::set<std::string>& touched);

  std::map<Place, Claims> places_;
  std::map<std::string, std::vector<Place>> services_;
  std::unordered_map<k8s::Address, Uses, HashAddress> uses_;
  std::map<std::pair<Place, lb_kind>, int> changes_;  ///< claims made, less claims given up
  std::size_t lost_ = 0;
};

}  // namespace lb::agent
