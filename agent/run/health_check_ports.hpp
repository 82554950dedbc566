// Opens and serves the health-check node ports, and reports ports (these, and those of the agent's own
// servers) that another process holds: in the log, in Events, in the metrics and in `status`.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "agent/datapath/coexistence.hpp"
#include "agent/observe/health.hpp"
#include "agent/observe/metrics.hpp"
#include "agent/observe/servers.hpp"
#include "agent/observe/service_health.hpp"
#include "agent/run/inputs.hpp"
#include "k8s/objects/source.hpp"

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
    const Servers& servers;
    Inputs& inputs;
    Metrics& metrics;
    Coexistence& coexistence;
  };
  using Complain = std::function<void(const k8s::Complaint&)>;

  HealthCheckPorts(boost::asio::io_context& context, Dependencies dependencies, Complain complain);

  /// Serves health checks by ServiceHealth; complains to the owners of Services about ports that are taken.
  void serve(const HealthChecks& checks, const std::vector<k8s::Address>& addresses) {
    health_checks_.serve(checks, addresses);
  }
  /// Whether it listens on all of them.
  [[nodiscard]] bool complete() const noexcept { return health_checks_.complete(); }

  /// Posts Events about the Node, like kube-proxy, for ports of the agent's own servers that are taken at the
  /// start.
  void post_events();
  /// Updates the metrics and `status`.
  void update_metrics();

 private:
  void complain_of(const HealthCheck& check, const std::string& why);

  Dependencies dependencies_;
  Complain complain_;
  ServiceHealth health_checks_;
};

}  // namespace lb::agent
