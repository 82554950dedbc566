// SPDX-License-Identifier: Apache-2.0
// The agent's pending steps: events mark steps, and one pass runs them in a fixed order. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>

namespace lb::agent {

/// The steps of Agent::reconcile(), in this order. A step may rely on all steps before it: no hook is
/// attached before the node's devices, addresses and ranges are published.
enum class Step : std::uint8_t {
  devices,           ///< decide which devices are served, from the kernel's network and the Node's addresses
  addresses,         ///< publish the node's addresses: to the model, the maps and the node page
  source,            ///< start to read objects once the network is known: the first plan needs its addresses
  plans,             ///< plan services again that new addresses or API servers affect
  triggers,          ///< record the trigger times of planned changes
  ipsec,             ///< read the ranges that IPsec policies encrypt or block; `node` publishes them
  kube_proxy,        ///< check for kube-proxy's rules; `node` publishes the consequences
  node,              ///< publish the zone, and the ranges of pods, ClusterIPs and IPsec
  attach,            ///< attach all hooks for the first time, once the first plan is in the maps
  hooks,             ///< follow devices that were added, removed or changed
  redirected_flows,  ///< end flows that IPsec policies cover; since `node`, programs refuse new ones
  lost_sources,      ///< end flows from addresses that this node no longer has
  conntrack,         ///< configure the kernel's conntrack as the options say
  repair,            ///< compare the tables with their written values
  tables,            ///< report tables that are nearly full, enlarge them, schedule retries
  readiness,         ///< check whether all delivered objects are in the maps
  health_checks,     ///< serve the health-check node ports
  unreported_changes,  ///< check facts without kernel notifications, follow a drain, and write the heartbeat
  reports,             ///< report a missing own Node, and ports that are taken
};

class PendingSteps {
 public:
  /// `schedule` arranges that pass() is called soon, but must not call it itself. It is called once until
  /// that pass has ended, however many steps are marked.
  explicit PendingSteps(std::function<void()> schedule) : schedule_(std::move(schedule)) {}

  /// A step that is marked twice runs once.
  void mark(std::initializer_list<Step> steps);

  /// Calls `act` for each marked step in ascending order, including those that `act` marks meanwhile. If
  /// `act` marks the current step or an earlier one, the pass ends, and the rest waits for the next one: so
  /// the order is kept, and a step that marks itself delays no other.
  void pass(const std::function<void(Step)>& act);

 private:
  [[nodiscard]] std::optional<Step> first() const;

  std::function<void()> schedule_;
  std::uint32_t marked_ = 0;   ///< one bit for each step
  bool is_scheduled_ = false;  ///< or under way
};

}  // namespace lb::agent
