// Who holds an address and port that several services claim (SEM-82). Pure.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
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

  void withdraw(const std::string& service, std::set<std::string>& touched);
  void add(const Place& place, Claim claim, std::set<std::string>& touched);

  std::map<Place, Claims> places_;
  std::map<std::string, std::vector<Place>> services_;
  std::size_t lost_ = 0;
};

}  // namespace lb::agent
