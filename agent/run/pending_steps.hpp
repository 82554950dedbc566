// The steps that the agent has still to run: events mark steps, and one pass runs them in a fixed order.
// Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>

namespace lb::agent {

/// What Agent::reconcile() does, in this order. A step may rely on all before it: no hook is attached before
/// the node's devices, addresses and ranges are published.
enum class Step : std::uint8_t {
  devices,           ///< decide which devices serve, by the kernel's network and the Node object's addresses
  addresses,         ///< publish the node's addresses: to the model, the maps and the node page
  source,            ///< begin to read objects, once the network is known: the first plan needs its addresses
  plans,             ///< plan again what new addresses or API servers affect
  triggers,          ///< record the trigger times of what is planned
  ipsec,             ///< read what IPsec policies encrypt or block; `node` publishes it
  kube_proxy,        ///< look for kube-proxy's rules; `node` publishes what follows from them
  node,              ///< publish the zone, the pods' ranges, ClusterIPs' ranges and IPsec's
  attach,            ///< attach all hooks for the first time, once the first plan is in the maps
  hooks,             ///< follow devices that came, went or changed
  redirected_flows,  ///< end those that IPsec policies cover; since `node`, programs refuse new ones
  conntrack,         ///< configure the kernel's conntrack as the options say
  repair,            ///< compare the tables with what was written
  tables,            ///< report those that are nearly full, make larger ones, schedule retries
  readiness,         ///< is everything that was delivered in the maps?
  health_checks,     ///< serve the health-check node ports
  unreported_changes,  ///< check what no event of the kernel reports, and write the heartbeat
  reports,             ///< report that the own Node is missing, or ports are taken
};

class PendingSteps {
 public:
  /// `schedule` arranges that pass() is called soon, but must not call it itself. It is called once until
  /// that pass has ended, however many steps are marked.
  explicit PendingSteps(std::function<void()> schedule) : schedule_(std::move(schedule)) {}

  /// A step that is marked twice runs once.
  void mark(std::initializer_list<Step> steps);

  /// Calls `act` for each marked step in ascending order, also for those that `act` marks meanwhile. If `act`
  /// marks the current step or an earlier one, the pass ends, and the rest waits for the next one: so the
  /// order is kept, and a step that marks itself delays no other.
  void pass(const std::function<void(Step)>& act);

 private:
  [[nodiscard]] std::optional<Step> first() const;

  std::function<void()> schedule_;
  std::uint32_t marked_ = 0;   ///< a bit a step
  bool is_scheduled_ = false;  ///< or under way
};

}  // namespace lb::agent
