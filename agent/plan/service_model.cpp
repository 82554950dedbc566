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
    abandon_round();
    invalidate_endpoints();
  }
  service_ = std::move(service);
  invalidate_frontends();
  return Change::some;
}

void ServiceModel::unset() {
  service_.reset();
  invalidate_frontends();
  abandon_round();
}

/// Abandons the plan under way.
void ServiceModel::abandon_round() {
  if (!round_) {
    return;
  }
  round_.reset();
  invalidate_endpoints();
}

Change ServiceModel::put_slice(const k8s::EndpointSlice& slice) {
  const auto found = slices_.find(slice.key.name);
  auto compact = found == slices_.end() ? std::make_shared<const CompactSlice>(slice)
                                        : std::make_shared<const CompactSlice>(slice, *found->second);
  if (found != slices_.end() && *found->second == *compact) {
    return Change::none;
  }
  retire(slice.key.name);
  endpoint_count_ += compact->size();
  compact->for_each_address([this](const k8s::Address& address) { blocks_.add(address); });
  if (local_ready_) {
    local_ready_->add(*compact);
  }
  slices_.emplace(slice.key.name, std::move(compact));
  return Change::some;
}

Change ServiceModel::reread_endpoints_at(const std::vector<k8s::Address>& sorted) {
  auto change = Change::none;
  for (const auto& [name, slice] : slices_) {
    if (!slice->has_one_of(sorted)) {
      continue;
    }
    change = Change::some;
    if (!changed_slices_.insert(name).second) {  // candidates of an older state of the slice are replaced
      invalidate_endpoints();
      continue;
    }
    retired_.insert_or_assign(name, slice);
    if (endpoints_ == Endpoints::resolved) {
      endpoints_ = Endpoints::slices_changed;
    }
  }
  return change;
}

void ServiceModel::erase_slice(const std::string& name) { retire(name); }

/// A slice that was added since the last replan() began has no candidates, so none must be removed for it.
void ServiceModel::retire(const std::string& slice) {
  const bool was_taken_in = changed_slices_.insert(slice).second;
  if (endpoints_ == Endpoints::resolved) {
    endpoints_ = Endpoints::slices_changed;
  }
  const auto found = slices_.find(slice);
  if (found == slices_.end()) {
    return;
  }
  endpoint_count_ -= found->second->size();
  found->second->for_each_address([this](const k8s::Address& address) { blocks_.remove(address); });
  if (local_ready_) {
    local_ready_->remove(*found->second);
  }
  if (was_taken_in) {
    retired_.insert_or_assign(slice, std::move(found->second));
  }
  slices_.erase(found);
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
  if (has_endpoints_in_blocks_of(changes->external_addresses)) {
    invalidate_endpoints();
  }
  spec_complaints_ = std::move(derived.complaints);
  over_limit_ = std::move(derived.over_limit);
  adopt(std::move(derived.ports));
  return std::move(changes->touched);
}

/// Only the service's own outside addresses matter to its endpoints.
bool ServiceModel::has_endpoints_in_blocks_of(const std::vector<k8s::Address>& addresses) const {
  return !slices_.empty() &&
         std::ranges::any_of(addresses, [this](const auto& address) { return blocks_.may_have(address); });
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
  if (kept < ports_.size() && !skipped_.empty()) {
    invalidate_endpoints();
  }
  ports_ = std::move(ports);
  if (endpoints_ == Endpoints::resolved) {
    endpoints_ = Endpoints::slices_changed;
  }
}

std::optional<Change> ServiceModel::replan(const NodeView& node, const Frontends& frontends,
                                           WorkBudget& budget, LocalRoutes* routes) {
  static const std::vector<std::string> no_keys;
  if (!round_) {
    round_ = begin();
  }
  const Viewpoint view{node, service_ ? service_->topology_keys : no_keys, &frontends, name_, routes};
  if (!resolve_endpoints(*round_, view, budget)) {
    return std::nullopt;
  }
  while (round_->planned < ports_.size()) {
    if (budget.is_over()) {
      return std::nullopt;
    }
    const std::size_t at = round_->planned++;
    const auto& wanted = ports_[at].spec.plan;
    auto held = frontends.held(name_, wanted);
    budget.spend(units_per_port + wanted.frontends.size() / checks_per_unit);
    auto last = last_plan(wanted.key);
    const bool stays =
        round_->is_resolved && last && last->frontends == held && last->policy.selection == selection_of(at);
    round_->plans.push_back(stays ? std::move(last) : replan(at, std::move(held), std::move(last), budget));
  }
  const auto before = std::exchange(plans_, std::move(round_->plans));
  round_.reset();
  return plans_ == before ? Change::none : Change::some;
}

ServiceModel::Plan ServiceModel::last_plan(const ServicePortKey& key) const {
  const auto at =
      std::ranges::lower_bound(plans_, key, {}, [](const Plan& plan) -> const auto& { return plan->key; });
  return at != plans_.end() && (*at)->key == key ? *at : nullptr;
}

ServiceModel::Round ServiceModel::begin() {
  Round round;
  const auto endpoints = std::exchange(endpoints_, Endpoints::resolved);
  round.is_resolved = endpoints == Endpoints::resolved;
  round.are_stale = endpoints == Endpoints::all_stale;
  if (round.are_stale) {
    skipped_.clear();
  }
  const auto now = [this](const std::string& name) {
    const auto found = slices_.find(name);
    return found == slices_.end() ? nullptr : found->second;
  };
  for (const auto& name : std::exchange(changed_slices_, {})) {
    skipped_.erase(name);
    const auto before = retired_.find(name);
    round.changed.push_back({before == retired_.end() ? nullptr : std::move(before->second), now(name)});
  }
  retired_.clear();
  const bool some_take_all = round.are_stale || std::ranges::any_of(ports_, [](const Port& port) {
                               return port.seen == Seen::never;
                             });
  if (some_take_all && !round.is_resolved) {
    for (const auto& [name, slice] : slices_) {
      round.all.push_back({nullptr, slice});
    }
  }
  return round;
}

/// Works port by port, on some slices of each port at a time.
bool ServiceModel::resolve_endpoints(Round& round, const Viewpoint& view, WorkBudget& budget) {
  if (round.is_resolved) {
    return true;
  }
  for (; round.port < ports_.size(); ++round.port, round.slice = 0) {
    auto& port = ports_[round.port];
    const bool all = port.seen == Seen::never || round.are_stale;
    const auto& changes = all ? round.all : round.changed;
    if (all && round.slice == 0) {
      port.candidates.clear();
    }
    while (round.slice < changes.size()) {
      if (budget.is_over()) {
        return false;
      }
      round.slice = take_in(port, changes, round.slice, view, budget);
    }
    port.seen = Seen::before;
    budget.spend(1);
  }
  return true;
}

/// Takes in enough slices for a step, so that small slices do not each cost a pass over all candidates.
/// Returns the index of the next one.
std::size_t ServiceModel::take_in(Port& port, const std::vector<SliceChange>& changes, std::size_t from,
                                  const Viewpoint& view, WorkBudget& budget) {
  constexpr std::size_t step = 4096;
  const Viewpoint unasked{view.node, view.topology_keys};
  const Viewpoint all_of_them{view.node, view.topology_keys, nullptr, view.service, view.routes};
  const auto& [key, name] = std::tie(port.spec.plan.key, port.spec.port_name);
  std::vector<Candidate> gone;
  std::vector<Candidate> fresh;
  std::uint64_t looked_at = 0;
  const auto lookups = [&] { return view.routes != nullptr ? view.routes->lookups() : 0; };
  const auto before_lookups = lookups();
  while (from < changes.size() && gone.size() + fresh.size() < step && looked_at < step) {
    const auto& change = changes[from++];
    if (change.gone) {  // read again: without the routes its candidates differ from the new ones
      const auto& before = change.gone == change.fresh ? unasked : all_of_them;
      static_cast<void>(change.gone->append(key, name, before, gone));
    }
    if (!change.fresh) {
      continue;
    }
    looked_at += change.fresh->port_count();
    auto message = change.fresh->append(key, name, view, fresh);
    if (!message.empty()) {
      skipped_[change.fresh->name()].insert(std::move(message));
    }
  }
  if (!fresh.empty() || !gone.empty()) {
    port.candidates.update(gone, fresh);
  }
  budget.spend(gone.size() + fresh.size() + looked_at / 16 + 1 +
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

/// Returns `last` if nothing has changed.
ServiceModel::Plan ServiceModel::replan(std::size_t at, std::vector<FrontendPlan> held, Plan last,
                                        WorkBudget& budget) {
  auto& port = ports_[at];
  auto plan = complete(port.spec, port.candidates);
  plan.frontends = std::move(held);
  plan.policy.selection = selection_of(at);
  budget.spend(plan.backends.size() / 4);  // two ports of 100,000 backends are too much for a turn
  if (last && *last == plan) {
    return last;
  }
  return std::make_shared<const ServicePortPlan>(std::move(plan));
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
    local_ready_.reset();
    return std::nullopt;
  }
  if (!local_ready_) {
    local_ready_.emplace(node.name);
    for (const auto& [name, slice] : slices_) {
      local_ready_->add(*slice);
    }
    work.spend(slices_.size() + endpoint_count_ / checks_per_unit);
  }
  HealthCheck check{service_->key, service_->health_check_node_port, {}, service_->uid};
  for (const auto& address : service_->cluster_ips) {
    check.local.at(address.family() == k8s::Family::ipv4 ? 0 : 1) = local_ready_->count(address.family());
  }
  return check;
}

ServiceModel::Messages ServiceModel::complaints(const Frontends& frontends) const {
  Messages complaints;
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
  for (const auto& [slice, messages] : skipped_) {
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

bool ServiceModel::has_endpoints_on(std::string_view node) const {
  return std::ranges::any_of(slices_, [&](const auto& entry) { return entry.second->names_node(node); });
}

bool ServiceModel::has_endpoints_at(const std::vector<k8s::Address>& sorted) const {
  return std::ranges::any_of(slices_, [&](const auto& entry) { return entry.second->has_one_of(sorted); });
}

void ServiceModel::append_listening(std::vector<ListeningAddress>& addresses) const {
  for (const auto& [name, slice] : slices_) {
    slice->append_listening(addresses);
  }
}

bool ServiceModel::has_cluster_ip(const std::vector<k8s::Address>& sorted) const {
  return service_ &&
         std::any_of(service_->cluster_ips.begin(), service_->cluster_ips.end(), [&](const auto& address) {
           return std::binary_search(sorted.begin(), sorted.end(), address);
         });
}

}  // namespace lb::agent
