// SPDX-License-Identifier: Apache-2.0
// Opens and serves the health-check node ports, and reports ports (these, and those of the agent's own
// servers) that another process holds: in the log, in Events, in the metrics and in `status`.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "agent/base/descriptors.hpp"
#include "agent/datapath/coexistence.hpp"
#include "agent/observe/health.hpp"
#include "agent/observe/metrics.hpp"
#include "agent/observe/servers.hpp"
#include "agent/observe/service_health.hpp"
#include "agent/run/inputs.hpp"
#include "agent/run/port_events.hpp"
#include "k8s/objects/source.hpp"
#include "maps/abi/abi.h"

namespace lb::agent {

/// The text for `status` about ports that are taken; empty if none is. `checks`: number of taken health-check
/// node ports.
[[nodiscard]] std::string taken_ports_text(const std::vector<WaitingServer>& servers, std::size_t checks);

class HealthCheckPorts {
 public:
  /// All references must outlive this.
  struct Dependencies {
    const AgentOptions& options;
    const Health& health;
    Servers& servers;
    Inputs& inputs;
    Metrics& metrics;
    Coexistence& coexistence;
    DescriptorShares descriptors;
  };
  using Complain = std::function<void(const k8s::Complaint&)>;
  using Look = PortEvents::Look;

  /// `look` tells whether kube-proxy's rules are on this node.
  HealthCheckPorts(boost::asio::io_context& context, Dependencies dependencies, Complain complain, Look look);

  /// Serves health checks by ServiceHealth; complains to the owners of Services about ports that are taken.
  /// While the ports are kube-proxy's it serves none.
  void serve(const HealthChecks& checks, const std::vector<k8s::Address>& addresses);
  /// Whether it listens on all of them.
  [[nodiscard]] bool complete() const noexcept { return health_checks_.complete(); }

  enum class Owner : std::uint8_t { agent, kube_proxy };
  /// Called each second. Once `sluice drain` has begun, and if kube-proxy's rules are here, the ports on
  /// which both listen are kube-proxy's: 10256, 10249 and the health-check node ports. True if the owner has
  /// changed.
  [[nodiscard]] bool follow_drain(lb_bool draining);

  /// Reports ports that are taken: Events as kube-proxy has them, metrics and `status`.
  void report();

 private:
  void complain_of(const ServiceHealth::Taken& port);
  void opened(const HealthCheck& check, const std::string& place);
  [[nodiscard]] std::set<std::string> port_names() const;

  Dependencies dependencies_;
  Complain complain_;
  Look look_;
  PortEvents events_;
  ServiceHealth health_checks_;
  Owner owner_ = Owner::agent;
};

}  // namespace lb::agent
