// SPDX-License-Identifier: Apache-2.0
// Writes plans to the maps at once, as they arrive, because the time until a change takes effect matters
// most. Measures that time.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <vector>

#include "agent/attach/stale_udp_socket_closer.hpp"
#include "agent/observe/metrics.hpp"
#include "agent/options/config.hpp"
#include "agent/plan/cluster.hpp"
#include "agent/plan/plan.hpp"
#include "agent/run/intake.hpp"
#include "agent/tables/tables.hpp"

namespace lb::agent {

class PlanWriter final : public PlanSink {
 public:
  /// All references must outlive this; `intake` may be created later.
  struct Dependencies {
    Tables& tables;
    Metrics& metrics;
    const Intake& intake;
  };
  /// `cleanup` resets connected UDP sockets whose backend ended, in the namespaces in which the hooks of
  /// `scope` translate. `wrote` is called after each batch, with the time at which it was in the maps.
  PlanWriter(boost::asio::io_context& context, const UdpCleanup& cleanup, SocketScope scope,
             Dependencies dependencies, std::function<void(const Moment& end)> wrote);
  PlanWriter(const PlanWriter&) = delete;
  PlanWriter& operator=(const PlanWriter&) = delete;
  ~PlanWriter() override = default;

  void apply(Batch batch, std::vector<PlanChange> changes) override;

  /// Measures the time since the triggers of all changes that `cluster` has planned since the last call. Like
  /// kube-proxy, excludes failed changes, and includes changes that affected no plan.
  void measure_triggers(Cluster& cluster) const;

 private:
  void measure(Batch batch, const Moment& start, const Moment& end) const;

  Dependencies dependencies_;
  StaleUdpSocketCloser stale_udp_sockets_;
  std::function<void(const Moment&)> wrote_;
};

}  // namespace lb::agent
