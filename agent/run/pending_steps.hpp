// The steps that the agent has still to run: events mark steps, and one pass runs them in a fixed order.
// Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>

namespace lb::agent {

/// What Agent::reconcile() does, in this order. A step may count on all before it: no hook is attached while
/// the node's devices, addresses and ranges are not yet published.
enum class Step : std::uint8_t {
  devices,           ///< decide which devices serve, by the kernel's network and the Node object's addresses
  addresses,         ///< publish the node's addresses: to the model, the maps and the node page
  source,            ///< begin to read objects, once the network is known: the first plan needs its addresses
  plans,             ///< plan anew what other addresses or API servers concern
  triggers,          ///< measure how long ago what is planned was caused
  ipsec,             ///< read what IPsec policies encrypt or block; `node` publishes it
  kube_proxy,        ///< look for kube-proxy's rules; `node` publishes what follows from them
  node,              ///< publish the zone, the pods' ranges, ClusterIPs' ranges and IPsec's
  attach,            ///< attach all hooks for the first time, once the first plan is in the maps
  hooks,             ///< follow devices that came, went or changed
  redirected_flows,  ///< end those that IPsec policies concern; `node` has let programs refuse new ones
  conntrack,         ///< set the kernel's conntrack as the options say
  repair,            ///< compare the tables with what was written
  tables,            ///< say which are nearly full, make larger ones, plan a retry of what failed
  readiness,         ///< is all that came in the maps?
  health_checks,     ///< serve the health-check node ports
  unreported_changes,  ///< look at what no event of the kernel reports, and beat
  reports,             ///< say that the own Node is missing, or ports are taken
};

class PendingSteps {
 public:
  /// `schedule` shall have pass() called soon; it must not call it itself. It is called once until that pass
  /// has ended, however much is marked.
  explicit PendingSteps(std::function<void()> schedule) : schedule_(std::move(schedule)) {}

  /// A step that is marked already is taken once.
  void mark(std::initializer_list<Step> steps);

  /// Calls `act` for each marked step in ascending order, also for those that `act` marks on the way. One
  /// that `act` marks at or before the step under way ends the pass, and all that is left waits for the next:
  /// order holds, and a step that marks itself delays no other.
  void pass(const std::function<void(Step)>& act);

 private:
  [[nodiscard]] std::optional<Step> first() const;

  std::function<void()> schedule_;
  std::uint32_t marked_ = 0;   ///< a bit a step
  bool is_scheduled_ = false;  ///< or under way
};

}  // namespace lb::agent
