// SPDX-License-Identifier: Apache-2.0
// The state of one Service, and its planning.
#include "agent/plan/service_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "k8s/objects/peer_labels.hpp"

namespace lb::agent {
namespace {

constexpr std::uint64_t units_per_port = 4;     ///< for names, policy and its plan
constexpr std::uint64_t units_per_lookup = 10;  ///< of a route, by netlink
constexpr std::uint64_t checks_per_unit = 4;    ///< checks of an address, a range or a port of the object

/// Whether packets of clients outside get this node's address although the policy is Local.
bool loses_client(const ServicePortPlan& plan) {
  return plan.policy.external == LB_LOCAL && std::ranges::any_of(plan.frontends, [](const auto& frontend) {
           return frontend.kind != LB_CLUSTER_IP;
         });
}

/// A backend of the local set that is reached by an uplink; null: none.
const BackendPlan* local_by_uplink(const BackendList& backends) {
  for (const auto& chunk : backends.chunks()) {
    if (chunk->members(LB_LOCAL).count == 0) {
      continue;
    }
    const auto found = std::ranges::find_if(chunk->backends(), [](const BackendPlan& backend) {
      return backend.in_local && backend.weight > 0 && backend.locality == LB_SAME_NODE_BY_UPLINK;
    });
    if (found != chunk->backends().end()) {
      return &*found;
    }
  }
  return nullptr;
}

std::string lost_client_text(const ServicePlans& plans) {
  for (const auto& plan : plans) {
    const auto* const found = loses_client(*plan) ? local_by_uplink(plan->backends) : nullptr;
    if (found == nullptr) {
      continue;
    }
    return fmt::format(
        "its external traffic policy is Local, but from its own node the route to backend {} leaves by an "
        "uplink: that node's address replaces the client's, so that replies return",
        found->address.text());
  }
  return {};
}

}  // namespace

Change ServiceModel::set(k8s::Service service) {
  if (service_ == service) {
    return Change::none;
  }
  if (!service_ || service_->topology_keys != service.topology_keys) {
    give_up_plan();
    invalidate_endpoints();
  }
  service_ = std::move(service);
  invalidate_frontends();
  return Change::some;
}

void ServiceModel::unset() {
  service_.reset();
  invalidate_frontends();
  give_up_plan();
}

void ServiceModel::give_up_plan() {
  if (making_) {
    making_.reset();
    invalidate_endpoints();
  }
}

std::uint64_t ServiceModel::draft_spec(const NodeView& node, const PlanOptions& options) {
  if (!service_ || !spec_is_stale_ || draft_) {
    return 0;
  }
  draft_ = lb::agent::spec(*service_, node, options);
  const auto checks = service_->external_ips.size() + service_->load_balancer_ips.size() +
                      service_->source_ranges.size() + service_->ports.size();
  return checks / checks_per_unit;
}

std::optional<std::set<std::string>> ServiceModel::spec(const NodeView& node, const PlanOptions& options,
                                                        Frontends& frontends, WorkBudget& work) {
  if (!claiming_) {
    if (!spec_is_stale_) {
      return std::set<std::string>{};
    }
    draft_spec(node, options);
    spec_is_stale_ = false;
    claiming_ = std::exchange(draft_, std::nullopt).value_or(ServiceSpec{});
  }
  auto changes = frontends.claim(name_, created(), claiming_->ports, work);
  if (!changes) {
    return std::nullopt;
  }
  auto derived = std::move(*claiming_);
  claiming_.reset();
  if (slices_.are_in_blocks_of(
          changes->external_addresses)) {  // only its own outside addresses matter to them
    invalidate_endpoints();
  }
  spec_complaints_ = std::move(derived.complaints);
  over_limit_ = std::move(derived.over_limit);
  adopt(std::move(derived.ports));
  return std::move(changes->touched);
}

/// Keeps the endpoints of every unchanged port.
void ServiceModel::adopt(std::vector<PortSpec> specs) {
  std::vector<Port> ports;
  ports.reserve(specs.size());
  std::size_t kept = 0;
  auto old = ports_.begin();  // both lists are in the order of their keys
  for (auto& spec : specs) {
    while (old != ports_.end() && old->spec.plan.key < spec.plan.key) {
      ++old;
    }
    Port port;
    if (old != ports_.end() && old->spec.plan.key == spec.plan.key) {
      ++kept;
      port = std::move(*old++);
    }
    port.spec = std::move(spec);
    ports.push_back(std::move(port));
  }
  if (kept < ports_.size() && !slices_.skipped().empty()) {
    invalidate_endpoints();
  }
  ports_ = std::move(ports);
  slices_.ports_changed();
}

std::optional<Change> ServiceModel::replan(const NodeView& node, const Frontends& frontends,
                                           WorkBudget& budget, LocalRoutes* routes) {
  static const std::vector<std::string> no_keys;
  if (!making_) {
    making_ = begin();
  }
  const Viewpoint view{node, service_ ? service_->topology_keys : no_keys, &frontends, name_, routes};
  if (!read_slices(view, budget)) {
    return std::nullopt;
  }
  auto& plans = making_->plans;
  while (plans.size() < ports_.size()) {
    if (budget.is_over()) {
      return std::nullopt;
    }
    plans.push_back(plan_port(plans.size(), frontends, budget));
  }
  const auto before = std::exchange(plans_, std::move(plans));
  making_.reset();
  return plans_ == before ? Change::none : Change::some;
}

ServiceModel::Plan ServiceModel::last_plan(const ServicePortKey& key) const {
  const auto at =
      std::ranges::lower_bound(plans_, key, {}, [](const Plan& plan) -> const auto& { return plan->key; });
  return at != plans_.end() && (*at)->key == key ? *at : nullptr;
}

ServiceModel::Making ServiceModel::begin() {
  Making making;
  making.slices = slices_.begin();
  const bool all = making.slices.are_stale || !std::ranges::all_of(ports_, &Port::has_read_slices);
  if (all && making.slices.any) {
    making.all = slices_.all();
  }
  return making;
}

/// Works port by port, on some slices of each port at a time. Returns whether all are read.
bool ServiceModel::read_slices(const Viewpoint& view, WorkBudget& budget) {
  auto& making = *making_;
  if (!making.slices.any) {
    return true;
  }
  for (; making.port < ports_.size(); ++making.port, making.slice = 0) {
    auto& port = ports_[making.port];
    const bool all = !port.has_read_slices || making.slices.are_stale;
    const auto& changes = all ? making.all : making.slices.changed;
    if (all && making.slice == 0) {
      port.candidates.clear();
    }
    while (making.slice < changes.size()) {
      if (budget.is_over()) {
        return false;
      }
      making.slice = read_some(port, changes, making.slice, view, budget);
    }
    port.has_read_slices = true;
    budget.spend(1);
  }
  return true;
}

/// Reads several slices, so that small ones do not each cost a pass over all candidates. Returns the index of
/// the next one.
std::size_t ServiceModel::read_some(Port& port, const std::vector<SliceChange>& changes, std::size_t from,
                                    const Viewpoint& view, WorkBudget& budget) {
  constexpr std::size_t step = 4096;
  const Viewpoint unasked{view.node, view.topology_keys};
  const Viewpoint all_of_them{view.node, view.topology_keys, nullptr, view.service, view.routes};
  const auto& [key, name] = std::tie(port.spec.plan.key, port.spec.port_name);
  std::vector<Candidate> removed;
  std::vector<Candidate> added;
  std::uint64_t looked_at = 0;
  const auto lookups = [&] { return view.routes != nullptr ? view.routes->lookups() : 0; };
  const auto before_lookups = lookups();
  while (from < changes.size() && removed.size() + added.size() < step && looked_at < step) {
    const auto& change = changes[from++];
    if (change.before) {  // read again: without the routes its candidates differ from the new ones
      const auto& before = change.before == change.after ? unasked : all_of_them;
      static_cast<void>(change.before->append(key, name, before, removed));
    }
    if (!change.after) {
      continue;
    }
    looked_at += change.after->port_count();
    auto message = change.after->append(key, name, view, added);
    if (!message.empty()) {
      slices_.skip(change.after->name(), std::move(message));
    }
  }
  if (!added.empty() || !removed.empty()) {
    port.candidates.update(removed, added);
  }
  budget.spend(removed.size() + added.size() + looked_at / 16 + 1 +
               units_per_lookup * (lookups() - before_lookups));
  return from;
}

std::vector<std::size_t> ServiceModel::consistent_tables() const {
  std::vector<std::size_t> tables;
  if (!service_) {
    return tables;
  }
  for (const auto& port : ports_) {
    if (port.spec.plan.policy.selection != LB_CONSISTENT) {
      return {};
    }
    tables.push_back(static_cast<std::size_t>(std::ranges::count(port.spec.uses, true)));
  }
  return tables;
}

lb_selection ServiceModel::selection_of(std::size_t port) const {
  return port < granted_ ? ports_[port].spec.plan.policy.selection : LB_RANDOM;
}

/// Returns the last plan of this port if nothing has changed.
ServiceModel::Plan ServiceModel::plan_port(std::size_t at, const Frontends& frontends, WorkBudget& budget) {
  auto& port = ports_[at];
  const auto& wanted = port.spec.plan;
  auto held = frontends.held(name_, wanted);
  budget.spend(units_per_port + wanted.frontends.size() / checks_per_unit);
  auto last = last_plan(wanted.key);
  if (!making_->slices.any && last && last->frontends == held && last->policy.selection == selection_of(at)) {
    return last;
  }
  auto plan = complete(port.spec, port.candidates);
  plan.frontends = std::move(held);
  plan.policy.selection = selection_of(at);
  budget.spend(plan.backends.size() / 4);  // two ports of 100,000 backends are too much for a turn
  return last && *last == plan ? last : std::make_shared<const ServicePortPlan>(std::move(plan));
}

void ServiceModel::count_no_local(NoLocal& counts) const {
  for (const auto& plan : plans_) {
    if (plan->policy.local_empty != LB_DROP) {
      continue;
    }
    const auto in_local = [](const BackendPlan& backend) { return backend.in_local && backend.weight > 0; };
    if (std::ranges::any_of(plan->backends, in_local)) {
      continue;
    }
    const std::size_t family = plan->key.family == LB_IPV4 ? 0 : 1;
    counts.internal.at(family) += plan->policy.internal == LB_LOCAL ? 1 : 0;
    counts.external.at(family) += plan->policy.external == LB_LOCAL ? 1 : 0;
  }
}

/// A Service of another proxy has no spec, and no health check here.
bool ServiceModel::has_health_check() const noexcept {
  return service_ && service_->type == k8s::ServiceType::load_balancer &&
         service_->external_policy == k8s::TrafficPolicy::local && service_->health_check_node_port != 0 &&
         !(draft_ ? draft_->ports.empty() : ports_.empty());
}

std::optional<HealthCheck> ServiceModel::health_check(const NodeView& node, WorkBudget& work) {
  if (!has_health_check()) {
    slices_.stop_counting();
    return std::nullopt;
  }
  const auto& ready = slices_.count_ready(node.name, work);
  HealthCheck check{service_->key, service_->health_check_node_port, {}, service_->uid};
  for (const auto& address : service_->cluster_ips) {
    check.local.at(address.family() == k8s::Family::ipv4 ? 0 : 1) = ready.count(address.family());
  }
  return check;
}

ServiceComplaints::Messages ServiceModel::complaints(const Frontends& frontends) const {
  ServiceComplaints::Messages complaints;
  for (const auto& message : over_limit_) {
    complaints.try_emplace(message, too_many_frontends);
  }
  for (const auto& message : spec_complaints_) {
    complaints.try_emplace(message);
  }
  if (auto message = frontends.lost(name_); !message.empty()) {
    complaints.try_emplace(std::move(message), frontend_lost);
  }
  if (const auto tables = consistent_tables(); granted_ < tables.size()) {
    complaints.try_emplace(
        fmt::format("{} of its {} service ports choose backends at random: all sets of consistent selection "
                    "together, and a quarter of that for one Service, have no room for theirs; raise "
                    "--consistent-budget",
                    tables.size() - granted_, tables.size()),
        no_consistent_selection);
  }
  if (auto message = lost_client_text(plans_); !message.empty()) {
    complaints.try_emplace(std::move(message), client_address_lost);
  }
  for (const auto& [slice, messages] : slices_.skipped()) {
    for (const auto& message : messages) {
      complaints.try_emplace(message);
    }
  }
  return complaints;
}

k8s::LabelKeys ServiceModel::peer_labels() const {
  return service_ ? k8s::peer_labels(*service_) : k8s::LabelKeys{};
}

bool ServiceModel::asks_for(const k8s::LabelKeys& labels) const {
  return service_ && std::ranges::any_of(service_->topology_keys,
                                         [&](const std::string& key) { return labels.contains(key); });
}

bool ServiceModel::has_cluster_ip(const std::vector<k8s::Address>& sorted) const {
  return service_ &&
         std::any_of(service_->cluster_ips.begin(), service_->cluster_ips.end(), [&](const auto& address) {
           return std::binary_search(sorted.begin(), sorted.end(), address);
         });
}

}  // namespace lb::agent
