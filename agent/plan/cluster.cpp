// SPDX-License-Identifier: Apache-2.0
// The model: all relevant objects, and which services must be planned again.
#include "agent/plan/cluster.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "k8s/objects/broadcast.hpp"

namespace lb::agent {
namespace {

/// The service whose endpoints are the API servers.
const std::string api_service = "default/kubernetes";

constexpr std::uint64_t units_per_spec = 8;  ///< besides its frontends: names, and entries in three sets

std::string zone_of(const Labels& labels) {
  const auto found = std::ranges::find(labels, k8s::zone_label, &Labels::value_type::first);
  return found == labels.end() ? std::string{} : found->second;
}

k8s::LabelKeys changed_keys(const Labels& before, const Labels& after) {
  Labels changed;
  std::ranges::set_symmetric_difference(before, after, std::back_inserter(changed));
  k8s::LabelKeys keys;
  for (auto& [key, value] : changed) {
    keys.insert(std::move(key));
  }
  return keys;
}

}  // namespace

Cluster::Cluster(std::string node, PlanOptions options, PlanSink& plans, Complain complain)
    : options_(std::move(options)),
      plans_(plans),
      complain_(std::move(complain)),
      consistent_budget_(options_.consistent_tables) {
  node_.name = std::move(node);
}

ServiceModel& Cluster::touch(const std::string& service) {
  dirty_.push(service);
  auto& model = models_[service];
  if (!model) {
    model = std::make_unique<ServiceModel>(service, blocks_);
  }
  return *model;
}

void Cluster::upsert(k8s::Service service) {
  const auto key = service.key.text();
  services_.insert(key);
  k8s::refuse_topology_keys(service, options_.topology_labels);
  touch(key).set(std::move(service));
}

void Cluster::erase_service(const k8s::ObjectKey& key) {
  if (services_.erase(key.text()) > 0) {
    touch(key.text()).unset();
  }
}

/// A slice that moves to another service is removed from the old one first (SEM-4); a slice without a service
/// is ignored.
void Cluster::upsert(k8s::EndpointSlice slice) {
  const auto key = slice.key.text();
  const auto service = k8s::ObjectKey{slice.key.name_space, slice.service}.text();
  const auto found = slices_.find(key);
  if (found != slices_.end() && found->second.service != service) {
    erase_slice(slice.key);
  }
  if (slice.service.empty()) {
    return;
  }
  auto& known = slices_[key];
  known.service = service;
  known.family = slice.family;
  note_triggers(slice, known, touch(service).put_slice(slice));
}

/// A slice reported again unchanged is not a change (SEM-88).
void Cluster::note_triggers(const k8s::EndpointSlice& slice, Slice& known, Change change) {
  for (const auto trigger : slice.triggers) {
    if (change == Change::some || trigger != known.trigger) {
      triggers_.add({known.service, known.family}, trigger);
    }
    known.trigger = trigger;
  }
}

TriggerTimes::Pending Cluster::take_triggers() {
  return is_synced_ && !has_work() ? triggers_.take() : TriggerTimes::Pending{};
}

void Cluster::erase_slice(const k8s::ObjectKey& key) {
  const auto known = slices_.find(key.text());
  if (known == slices_.end()) {
    return;
  }
  triggers_.discard({known->second.service, known->second.family});
  touch(known->second.service).erase_slice(key.name);
  slices_.erase(known);
}

void Cluster::upsert(k8s::Node node) {
  if (node.name == node_.name) {
    upsert_own(node);
  } else {
    upsert_peer(std::move(node));
  }
}

void Cluster::upsert_own(const k8s::Node& node) {
  if (node_.labels != node.labels) {
    const auto zone = zone_of(node.labels);
    const auto before = std::exchange(node_.labels, node.labels);
    invalidate_labels(NodeRole::own, node.name, changed_keys(before, node.labels));
    if (std::exchange(node_.zone, zone) != zone) {
      for (auto& [key, model] : models_) {
        touch(key).invalidate_endpoints();
      }
    }
  }
  node_.pod_ranges = node.pod_cidrs;
  node_.object_addresses = all_addresses(node);
  if (!node_.object_addresses.empty()) {
    node_.family = node_.object_addresses.front().family() == k8s::Family::ipv4 ? LB_IPV4 : LB_IPV6;
  }
  join_addresses();
  join_broadcasts();
  if (auto primary = primary_addresses(node); primary != std::exchange(node_.primary, primary)) {
    for (auto& [key, model] : models_) {
      if (model->has_load_balancer_ips()) {
        touch(key).invalidate_frontends();
      }
    }
  }
}

/// A Node without labels counts as absent.
void Cluster::upsert_peer(k8s::Node node) {
  auto& labels = node_.peers[node.name];
  const auto changed = changed_keys(labels, node.labels);
  labels = std::move(node.labels);
  if (labels.empty()) {
    node_.peers.erase(node.name);
  }
  invalidate_labels(NodeRole::peers, node.name, changed);
}

void Cluster::erase_node(const std::string& name) {
  const auto found = node_.peers.find(name);
  if (found == node_.peers.end()) {
    return;
  }
  const auto gone = changed_keys(found->second, {});
  node_.peers.erase(found);
  invalidate_labels(NodeRole::peers, name, gone);
}

/// Labels other than the own zone matter only to services with topology keys (SEM-24), and those of another
/// Node only if it has endpoints.
void Cluster::invalidate_labels(NodeRole role, std::string_view node, const k8s::LabelKeys& changed) {
  if (changed.empty()) {
    return;
  }
  for (auto& [key, model] : models_) {
    if (!model->asks_for(changed)) {
      continue;
    }
    if (role == NodeRole::own || model->has_endpoints_on(node)) {
      touch(key).invalidate_endpoints();
    }
  }
}

void Cluster::labels_known(const k8s::LabelKeys& keys) {
  const auto before = std::exchange(known_labels_, keys);
  for (auto& [name, labels] : node_.peers) {
    std::erase_if(labels, [&](const auto& label) { return !keys.contains(label.first); });
  }
  std::erase_if(node_.peers, [](const auto& peer) { return peer.second.empty(); });
  k8s::LabelKeys changed;
  std::ranges::set_symmetric_difference(before.value_or(k8s::LabelKeys{}), keys,
                                        std::inserter(changed, changed.end()));
  for (auto& [key, model] : models_) {
    if (model->asks_for(changed)) {
      touch(key).invalidate_endpoints();
    }
  }
}

/// A service that needs unknown labels keeps its plan until labels_known() invalidates it. Its health check
/// is updated nevertheless, because local endpoints do not depend on labels of other Nodes.
bool Cluster::defer(const std::string& service, WorkBudget& work) {
  if (!known_labels_) {
    return false;
  }
  auto& model = *models_.at(service);
  if (std::ranges::includes(*known_labels_, model.peer_labels())) {
    waiting_.erase(service);
    return false;
  }
  waiting_.insert(service);
  unplanned_at_start_.erase(service);
  work.spend(model.draft_spec(node_, options_));
  note_health_check(service, model, work);
  return true;
}

void Cluster::set_addresses(std::vector<k8s::Address> addresses) {
  device_addresses_ = std::move(addresses);
  join_addresses();
}

void Cluster::join_addresses() {
  auto joined = node_.object_addresses;
  joined.insert(joined.end(), device_addresses_.begin(), device_addresses_.end());
  std::sort(joined.begin(), joined.end());
  joined.erase(std::unique(joined.begin(), joined.end()), joined.end());
  const auto before = std::exchange(node_.addresses, joined);
  std::vector<k8s::Address> changed;
  std::set_symmetric_difference(before.begin(), before.end(), joined.begin(), joined.end(),
                                std::back_inserter(changed));
  if (changed.empty()) {
    return;
  }
  for (auto& [key, model] : models_) {
    if (model->has_external_ips() || model->has_cluster_ip(changed)) {
      touch(key).invalidate_frontends();
    }
  }
}

void Cluster::set_broadcasts(std::vector<k8s::Address> addresses) {
  device_broadcasts_ = std::move(addresses);
  join_broadcasts();
}

/// Which subnets pods have is their network plug-in's choice: those of a bridge are a device's of the node,
/// others are often the Node's range, or the cluster's.
void Cluster::join_broadcasts() {
  auto joined = device_broadcasts_;
  for (const auto* ranges : {&node_.pod_ranges, &options_.pod_ranges}) {
    for (const auto& range : *ranges) {
      if (const auto last = k8s::broadcast_of(range)) {
        joined.push_back(*last);
      }
    }
  }
  std::ranges::sort(joined);
  joined.erase(std::unique(joined.begin(), joined.end()), joined.end());
  if (joined == std::exchange(node_.broadcasts, joined)) {
    return;
  }
  for (auto& [key, model] : models_) {
    if (model->has_external_ips() || model->has_load_balancer_ips()) {
      touch(key).invalidate_frontends();
    }
  }
}

void Cluster::set_api_servers(std::vector<ListeningAddress> addresses) {
  configured_api_servers_ = std::move(addresses);
  join_api_servers();
}

void Cluster::join_api_servers() {
  auto joined = configured_api_servers_;
  const auto behind = models_.find(api_service);
  if (behind != models_.end()) {
    behind->second->append_listening(joined);
  }
  std::ranges::sort(joined);
  joined.erase(std::unique(joined.begin(), joined.end()), joined.end());
  if (joined == std::exchange(node_.api_servers, joined)) {
    return;
  }
  for (auto& [key, model] : models_) {
    if (model->has_external_ips() || model->has_load_balancer_ips()) {
      touch(key).invalidate_frontends();
    }
  }
}

/// A new service may have the address of another one's endpoint as its ClusterIP, and a removed one may free
/// it.
void Cluster::invalidate_endpoints_at(const std::vector<k8s::Address>& addresses) {
  std::vector<k8s::Address> concerned;
  std::ranges::copy_if(addresses, std::back_inserter(concerned),
                       [this](const k8s::Address& address) { return blocks_.may_have(address); });
  if (concerned.empty()) {
    return;
  }
  for (auto& [key, model] : models_) {
    if (!model->has_endpoints_at(concerned)) {
      continue;
    }
    model->invalidate_endpoints();
    to_plan_.push(key);
  }
}

void Cluster::routes_changed(const std::vector<k8s::Address>& sorted) {
  for (auto& [key, model] : models_) {
    if (model->reread_endpoints_at(sorted) == Change::some) {
      to_plan_.push(key);
    }
  }
}

void Cluster::routes_forgotten() {
  for (auto& [key, model] : models_) {
    if (!model->has_endpoints_on(node_.name)) {
      continue;
    }
    model->invalidate_endpoints();
    to_plan_.push(key);
  }
}

std::vector<std::string> Cluster::complaining(std::string_view event) const {
  std::vector<std::string> services;
  for (const auto& [service, messages] : reported_) {
    const auto is_asked = [&](const auto& message) { return message.second == event; };
    if (std::ranges::any_of(messages, is_asked)) {
      services.push_back(service);
    }
  }
  return services;
}

void Cluster::complain(k8s::Complaint complaint) {
  if (complaint.type == k8s::ComplaintType::problem) {
    ++complaint_count_;
  }
  if (complain_) {
    complain_(std::move(complaint));
  }
}

void Cluster::flush() {
  if (is_synced_ && has_work()) {
    work(WorkBudget(more_ ? limits_.turn : WorkBudget::unlimited));
  }
}

void Cluster::take_turn() {
  asked_for_more_ = false;
  flush();
}

void Cluster::synced() {
  if (std::exchange(is_synced_, true)) {
    return;
  }
  for (const auto& [service, model] : models_) {
    unplanned_at_start_.insert(service);
  }
  first_specs_ = seen_specs_ = dirty_.next_mark();
  work(WorkBudget(more_ ? limits_.turn : WorkBudget::unlimited));
}

bool Cluster::has_work() const {
  return !dirty_.empty() || has_plans_to_make() || (!is_first_reported_ && is_first_made());
}

/// Whether every service that existed at the start has a plan.
bool Cluster::is_first_made() const { return is_synced_ && unplanned_at_start_.empty(); }

void Cluster::ask_for_more() {
  if (more_ && has_work() && !std::exchange(asked_for_more_, true)) {
    more_();
  }
}

bool Cluster::has_plans_to_make() const { return !to_plan_.empty() || !under_way_.empty(); }

/// The first specs are made before all plans, because the holder of a frontend is known only when all claims
/// are. Later specs share turns with plans, so that neither waits for the other to finish: if specs used up a
/// turn, the next one is for plans only. A plan made without knowledge of a stronger claim is made again once
/// that claim is known. If a frontend moves between two services and one of them waits for another turn,
/// neither has it until then.
void Cluster::work(WorkBudget turn) {
  if (!std::exchange(are_plans_next_, false)) {
    update_dirty_specs(turn);
  }
  Planned planned;
  if (are_first_specs_made()) {
    are_plans_next_ = turn.is_over() && has_plans_to_make();
    do {
      replan_some(turn, planned);
    } while (!turn.is_limited() && has_plans_to_make());
  }
  if (is_first_reported_) {
    report(planned);
  } else {
    report_first(planned);
  }
  ask_for_more();
}

void Cluster::report(const Planned& planned) {
  auto changes = changes_of(planned.changed);
  for (const auto& service : planned.all) {
    forget_if_empty(service);
  }
  if (!changes.empty()) {
    plans_.apply(Batch::changes, std::move(changes));
  }
}

/// Reports one batch, once every service that existed at the start has a plan. Services added meanwhile are
/// included, but not waited for.
void Cluster::report_first(const Planned& planned) {
  first_batch_.insert(planned.changed.begin(), planned.changed.end());
  for (const auto& service : planned.all) {
    forget_if_empty(service);
  }
  if (!is_first_made() || prepare_first()) {
    return;
  }
  is_first_reported_ = true;
  auto changes = changes_of(std::exchange(first_batch_, {}));
  prepared_.clear();
  reported_as_waiting_ = waiting_;
  for (const auto& service : reported_as_waiting_) {
    changes.push_back({service, {}, PlanState::waiting});
  }
  plans_.apply(Batch::whole, std::move(changes));
}

/// If there are thousands of services, reports some ahead in each turn. Returns whether others are left for
/// the next turn.
bool Cluster::prepare_first() {
  if (!more_ || first_batch_.size() <= limits_.first) {
    return false;
  }
  std::vector<std::string> some;
  while (some.size() < limits_.first) {
    some.push_back(std::move(first_batch_.extract(first_batch_.begin()).value()));
  }
  auto changes = changes_of(some);
  if (!plans_.prepare(changes)) {
    first_batch_.insert(some.begin(), some.end());
    return false;
  }
  prepared_.insert(some.begin(), some.end());
  return true;
}

void Cluster::update_dirty_specs(WorkBudget& turn) {
  if (dirty_.contains(api_service)) {
    join_api_servers();
  }
  const bool is_shared = turn.is_limited() && are_first_specs_made() && has_plans_to_make();
  WorkBudget work = is_shared ? WorkBudget(limits_.turn / 2) : turn;
  while (!dirty_.empty() && !work.is_over()) {
    update_spec(dirty_.front(), work);
  }
  turn.spend(work.spent());
  apply_cluster_ip_changes();
}

/// Updates a dirty service. If drafting its spec uses up the turn, its claims are made at the start of the
/// next one; an object that changes meanwhile is drafted again, but not put off again. Claims under way are
/// completed, and planned, before the object is read again.
void Cluster::update_spec(std::string service, WorkBudget& work) {
  if (models_.at(service)->is_claiming()) {
    if (!claim(service, work)) {
      return;
    }
    claimed_.insert(service);
  } else if (!postpone(service) && !defer(service, work)) {
    const auto checks = models_.at(service)->draft_spec(node_, options_);
    work.spend(units_per_spec + checks);
    if (checks > 0 && work.is_over() && drafted_.insert(service).second) {
      return;
    }
    if (!claim(service, work)) {
      return;
    }
  }
  drafted_.erase(service);
  dirty_.erase(service);
  if (claimed_.contains(service) && models_.at(service)->needs_spec()) {
    respec_after_plan_.insert(service);
  }
}

/// Returns whether all claims have been made.
bool Cluster::claim(const std::string& service, WorkBudget& work) {
  auto& model = *models_.at(service);
  const auto touched = model.spec(node_, options_, frontends_, work);
  if (!touched) {
    return false;
  }
  for (const auto& other : *touched) {  // one that was touched in an earlier turn may be gone
    if (models_.contains(other)) {
      to_plan_.push(other);
    }
  }
  to_plan_.push_all(consistent_budget_.ask(service, model.created(), model.consistent_tables(), work));
  to_plan_.push(service);
  return true;
}

/// Runs once for all services that were dirty at the last call, because it checks all services.
void Cluster::apply_cluster_ip_changes() {
  if (!dirty_.is_past(seen_specs_)) {
    return;
  }
  invalidate_endpoints_at(frontends_.take_changed());
  seen_specs_ = dirty_.next_mark();
}

/// While a plan is under way or waits for the service's claims, its spec and slices must not change.
bool Cluster::postpone(const std::string& service) {
  const bool has_to_wait = claimed_.contains(service) || models_.at(service)->is_under_way();
  if (has_to_wait) {
    respec_after_plan_.insert(service);
  }
  return has_to_wait;
}

/// Plans new services first, most of which take little time, then continues one service that needs several
/// turns, however many new ones there are.
void Cluster::replan_some(WorkBudget& turn, Planned& planned) {
  const bool goes_on = !under_way_.empty();
  while (!to_plan_.empty() && !turn.is_over()) {
    const auto service = to_plan_.front();
    to_plan_.erase(service);
    if (claimed_.erase(service) == 0 && dirty_.contains(service)) {
      update_spec(service, turn);  // plan the current object, not an outdated one
      if (!to_plan_.erase(service)) {
        continue;
      }
      claimed_.erase(service);
    }
    if (!postpone(service) && !defer(service, turn)) {
      replan(service, turn, planned);
    }
  }
  std::ranges::sort(planned.changed);  // report in the order of names
  apply_cluster_ip_changes();
  if (!goes_on) {
    return;
  }
  const auto service = std::move(under_way_.front());
  under_way_.pop_front();
  if (models_.contains(service) && models_.at(service)->is_under_way()) {
    replan(service, turn, planned);
  }
}

void Cluster::replan(const std::string& service, WorkBudget& turn, Planned& planned) {
  WorkBudget budget(turn.is_limited() ? limits_.service : WorkBudget::unlimited);
  auto& model = *models_.at(service);
  if (!model.is_under_way()) {
    model.grant_consistent(consistent_budget_.granted(service));
  }
  const auto change = model.replan(node_, frontends_, budget, routes_);
  turn.spend(budget.spent());
  if (!change) {
    under_way_.push_back(service);
    return;
  }
  planned.all.push_back(service);
  unplanned_at_start_.erase(service);
  if (reported_as_waiting_.erase(service) > 0 || *change == Change::some) {
    planned.changed.push_back(service);
  }
  note_health_check(service, model, turn);
  report_complaints(service, model);
  if (respec_after_plan_.erase(service) > 0) {
    dirty_.push(service);
  }
}

template <class Names>
std::vector<PlanChange> Cluster::changes_of(const Names& finished) const {
  std::vector<PlanChange> changes;
  std::vector<PlanChange> present;
  for (const auto& service : finished) {
    const auto model = models_.find(service);
    if (model == models_.end()) {  // the service was added and removed before the first batch was whole
      if (prepared_.contains(service)) {
        changes.push_back({service, {}});
      }
      continue;
    }
    auto plans = model->second->plans();
    (plans.ports.empty() ? changes : present).push_back(std::move(plans));
  }
  std::ranges::move(present, std::back_inserter(changes));
  return changes;
}

void Cluster::note_health_check(const std::string& service, ServiceModel& model, WorkBudget& work) {
  if (auto check = model.health_check(node_, work)) {
    health_checks_[service] = std::move(*check);
  } else {
    health_checks_.erase(service);
  }
}

void Cluster::report_complaints(const std::string& service, const ServiceModel& model) {
  auto complaints = model.complaints(frontends_);
  auto& reported = reported_[service];
  for (const auto& [reason, event] : complaints) {
    if (!reported.contains(reason)) {
      complain({"Service " + service, "", reason, event, model.uid()});
    }
  }
  const auto has_lost = [](const auto& messages) {
    return std::ranges::any_of(
        messages, [](const auto& each) { return each.second == std::string_view(frontend_lost); });
  };
  if (has_lost(reported) && !has_lost(complaints) && services_.contains(service)) {
    complain({"Service " + service, "", "all of its frontends are served again", frontends_served,
              model.uid(), k8s::ComplaintType::recovery});
  }
  reported = std::move(complaints);
  if (reported.empty()) {
    reported_.erase(service);
  }
}

void Cluster::forget_if_empty(const std::string& service) {
  const auto found = models_.find(service);
  if (found == models_.end() || dirty_.contains(service) || to_plan_.contains(service)) {
    return;
  }
  if (found->second->is_empty()) {
    models_.erase(found);
  }
}

std::optional<PlanChange> Cluster::plans_after(const std::string& service) const {
  const auto next = models_.upper_bound(service);
  return next == models_.end() ? std::nullopt : std::optional(next->second->plans());
}

ClusterCounts Cluster::counts() const {
  ClusterCounts counts;
  counts.services = services_.size();
  counts.slices = slices_.size();
  counts.waiting = waiting_.size();
  for (const auto& [key, model] : models_) {
    counts.endpoints += model->endpoint_count();
    model->count_no_local(counts.no_local);
  }
  counts.lost_frontends = frontends_.lost_count();
  counts.complaints = complaint_count_;
  return counts;
}

}  // namespace lb::agent
