// SPDX-License-Identifier: Apache-2.0
// The model: all relevant objects, and which services must be planned again.
#include "agent/plan/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

namespace lb::agent {
namespace {

/// The service whose endpoints are the API servers.
const std::string api_service = "default/kubernetes";

constexpr std::uint64_t units_per_object = 8;  ///< besides its frontends: names, and entries in three maps

}  // namespace

Cluster::Cluster(std::string node, PlanOptions options, PlanSink& plans, Complain complain)
    : options_(std::move(options)),
      plans_(plans),
      complaints_(std::move(complain)),
      node_(std::move(node), options_.pod_ranges),
      services_([this](const ServiceRecord& record, StageEvent event) {
        complaints_.add({"Service " + record.name, "",
                         fmt::format("it is planned anew, because of an error of this program: '{}' happened "
                                     "in the stage '{}'",
                                     name_of(event), name_of(ServiceRecords::stage_of(record)))});
      }),
      claims_(options_.consistent_tables) {}

/// An object of the Service, or what it depends on, has changed. A plan under way may have ended by that.
void Cluster::changed(ServiceRecord& record) {
  const bool was_under_way = queue_of(ServiceRecords::stage_of(record)) == StageQueue::under_way;
  const bool has_ended = was_under_way && !record.model.is_under_way();
  services_.happened(record, has_ended ? StageEvent::plan_ended : StageEvent::touched);
}

void Cluster::upsert(k8s::Service service) {
  k8s::refuse_topology_keys(service, options_.topology_labels);
  auto& record = services_.find_or_add(service.key.text(), blocks_);
  record.model.set(std::move(service));
  changed(record);
}

void Cluster::erase_service(const k8s::ObjectKey& key) {
  auto* const record = services_.find(key.text());
  if (record != nullptr && record->model.has_object()) {
    record->model.unset();
    changed(*record);
  }
}

/// A slice that moves to another service is removed from the old one first (SEM-4); a slice without a service
/// is ignored.
void Cluster::upsert(k8s::EndpointSlice slice) {
  const auto service = k8s::ObjectKey{slice.key.name_space, slice.service}.text();
  const auto before = slices_.service_of(slice.key);
  if (before && *before != service) {
    erase_slice(slice.key);
  }
  if (slice.service.empty()) {
    return;
  }
  auto& record = services_.find_or_add(service, blocks_);
  slices_.put(slice, service, record.model.put_slice(slice) == Change::some);
  changed(record);
}

void Cluster::erase_slice(const k8s::ObjectKey& key) {
  const auto service = slices_.service_of(key);
  if (!service) {
    return;
  }
  slices_.erase(key);
  auto& record = services_.find_or_add(*service, blocks_);
  record.model.erase_slice(key.name);
  changed(record);
}

TriggerTimes::Pending Cluster::take_triggers() {
  return first_.has_begun() && !has_work() ? slices_.take_triggers() : TriggerTimes::Pending{};
}

/// Labels other than the own zone matter only to services with topology keys (SEM-24), and those of another
/// Node only if it has endpoints.
bool Cluster::concerns_endpoints(const NodeChange& change, const ServiceModel& model) {
  return change.zone || model.asks_for(change.own_labels) ||
         (change.all_peer_labels && !model.peer_labels().empty()) ||
         (model.asks_for(change.peer_labels) && (change.peer.empty() || model.has_endpoints_on(change.peer)));
}

bool Cluster::concerns_frontends(const NodeChange& change, const ServiceModel& model) {
  if (change.primary && model.has_load_balancer_ips()) {
    return true;
  }
  if (!change.addresses.empty() && (model.has_external_ips() || model.has_cluster_ip(change.addresses))) {
    return true;
  }
  return (change.broadcasts || change.api_servers) &&
         (model.has_external_ips() || model.has_load_balancer_ips());
}

void Cluster::invalidate(const NodeChange& change) {
  if (change.is_empty()) {
    return;
  }
  for (auto& record : services_.records()) {
    const bool endpoints = concerns_endpoints(change, record.model);
    const bool frontends = concerns_frontends(change, record.model);
    if (endpoints) {
      record.model.invalidate_endpoints();
    }
    if (frontends) {
      record.model.invalidate_frontends();
    }
    if (endpoints || frontends) {
      changed(record);
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
  for (auto& record : services_.records()) {
    if (record.model.has_endpoints_at(concerned)) {
      record.model.invalidate_endpoints();
      services_.happened(record, StageEvent::affected);
    }
  }
}

void Cluster::routes_changed(const std::vector<k8s::Address>& sorted) {
  for (auto& record : services_.records()) {
    if (record.model.reread_endpoints_at(sorted) == Change::some) {
      services_.happened(record, StageEvent::affected);
    }
  }
}

void Cluster::routes_forgotten() {
  for (auto& record : services_.records()) {
    if (record.model.has_endpoints_on(node_.view().name)) {
      record.model.invalidate_endpoints();
      services_.happened(record, StageEvent::affected);
    }
  }
}

void Cluster::flush() {
  if (first_.has_begun() && has_work()) {
    work();
  }
}

void Cluster::take_turn() {
  turns_.begun();
  flush();
}

void Cluster::synced() {
  if (first_.has_begun()) {
    return;
  }
  std::set<std::string> services;
  for (const auto& record : services_.records()) {
    services.insert(services.end(), record.name);
  }
  first_.begin(std::move(services), services_.next_position());
  services_.begin_pass();
  work();
}

bool Cluster::has_work() const {
  return services_.has(StageQueue::to_read) || has_plans_to_make() || first_.is_due();
}

bool Cluster::has_plans_to_make() const {
  return services_.has(StageQueue::to_plan) || services_.has(StageQueue::under_way);
}

bool Cluster::are_first_objects_read() const { return services_.are_read_before(first_.first_position()); }

/// All first objects are read before the first plan is made, because the holder of a frontend is known only
/// when all claims are. Later objects share turns with plans, so that neither waits for the other to finish:
/// if reading used up a turn, the next one is for plans only. A plan made without knowledge of a stronger
/// claim is made again once that claim is known. If a frontend moves between two services and one of them
/// waits for another turn, neither has it until then.
void Cluster::work() {
  auto turn = turns_.budget(turns_.limits().turn);
  if (!turns_.are_plans_next()) {
    read_objects(turn);
  }
  Planned planned;
  if (are_first_objects_read()) {
    turns_.plans_come_next(turn.is_over() && has_plans_to_make());
    do {
      plan_some(turn, planned);
    } while (!turn.is_limited() && has_plans_to_make());
  }
  report(planned);
  if (has_work()) {
    turns_.ask();
  }
}

void Cluster::read_objects(WorkBudget& turn) {
  read_api_servers();
  const bool is_shared = turn.is_limited() && are_first_objects_read() && has_plans_to_make();
  WorkBudget work = is_shared ? WorkBudget(turns_.limits().turn / 2) : turn;
  for (auto* next = services_.first(StageQueue::to_read); next != nullptr && !work.is_over();
       next = services_.first(StageQueue::to_read)) {
    read(*next, work);
  }
  turn.spend(work.spent());
  apply_cluster_ip_changes();
}

void Cluster::read_api_servers() {
  const auto* const behind = services_.find(api_service);
  if (behind == nullptr || ServiceRecords::stage_of(*behind) == Stage::idle) {
    return;
  }
  std::vector<ListeningAddress> endpoints;
  behind->model.append_listening(endpoints);
  invalidate(node_.set_api_endpoints(std::move(endpoints)));
}

/// Reads a Service's object and makes its claims. If reading alone uses up the turn, its claims are made at
/// the start of the next one; an object that changes meanwhile is read again, but not put off again. Claims
/// under way are completed before the object is read again.
void Cluster::read(ServiceRecord& record, WorkBudget& work) {
  if (ServiceRecords::stage_of(record) == Stage::to_plan_outdated) {
    services_.happened(record, StageEvent::due);
  }
  if (record.name == api_service) {
    read_api_servers();
  }
  if (!record.model.is_claiming()) {
    if (put_off(record, work)) {
      return;
    }
    const auto checks = record.model.draft_spec(node_.view(), options_);
    work.spend(units_per_object + checks);
    if (checks > 0 && work.is_over() && ServiceRecords::stage_of(record) == Stage::changed) {
      return services_.happened(record, StageEvent::drafted);
    }
  }
  const auto others = claims_.claim(record.name, record.model, node_.view(), options_, work);
  if (!others) {
    return services_.happened(record, StageEvent::claims_begun);
  }
  for (const auto& name : *others) {
    if (auto* const other = services_.find(name); other != nullptr && other != &record) {
      services_.happened(*other, StageEvent::affected);
    }
  }
  services_.happened(record, StageEvent::claims_made);
}

/// A service that needs unknown labels keeps its plan until they are known. Its health check is updated
/// nevertheless, because local endpoints do not depend on labels of other Nodes.
bool Cluster::put_off(ServiceRecord& record, WorkBudget& work) {
  const bool lacks_labels = !node_.knows(record.model.peer_labels());
  services_.set_lacks_labels(record, lacks_labels);
  if (lacks_labels) {
    first_.put_off(record.name);
    work.spend(record.model.draft_spec(node_.view(), options_));
    note_health_check(record, work);
    services_.happened(record, StageEvent::put_off);
  }
  return lacks_labels;
}

/// Once for all services that were to be read at the last time, because it checks all services.
void Cluster::apply_cluster_ip_changes() {
  if (services_.has_pass_ended()) {
    services_.begin_pass();
    invalidate_endpoints_at(claims_.frontends().take_changed());
  }
}

/// Plans services without a partial plan first, most of which take little time, then continues one that needs
/// several turns, however many others there are.
void Cluster::plan_some(WorkBudget& turn, Planned& planned) {
  auto* const under_way = services_.first(StageQueue::under_way);
  for (auto* next = services_.first(StageQueue::to_plan); next != nullptr && !turn.is_over();
       next = services_.first(StageQueue::to_plan)) {
    if (ServiceRecords::stage_of(*next) == Stage::to_plan_outdated) {
      read(*next, turn);
      if (ServiceRecords::stage_of(*next) != Stage::to_plan) {
        continue;
      }
    }
    if (!put_off(*next, turn)) {
      plan(*next, turn, planned);
    }
  }
  apply_cluster_ip_changes();
  if (under_way != nullptr && under_way == services_.first(StageQueue::under_way)) {
    plan(*under_way, turn, planned);
  }
}

void Cluster::plan(ServiceRecord& record, WorkBudget& turn, Planned& planned) {
  auto budget = turn.is_limited() ? WorkBudget(turns_.limits().service) : WorkBudget(WorkBudget::unlimited);
  if (!record.model.is_under_way()) {
    record.model.grant_consistent(claims_.granted_ports(record.name));
  }
  const auto change = record.model.replan(node_.view(), claims_.frontends(), budget, routes_);
  turn.spend(budget.spent());
  if (!change) {
    return services_.happened(record, StageEvent::plan_begun);
  }
  const bool is_new = first_.has_waited(record.name) || *change == Change::some;
  first_.planned(record.name, is_new);
  planned.all.push_back(record.name);
  if (is_new) {
    planned.changed.push_back(record.name);
  }
  note_health_check(record, turn);
  complaints_.set(record.name, record.model.uid(), record.model.has_object(),
                  record.model.complaints(claims_.frontends()));
  services_.happened(record, StageEvent::planned);
}

void Cluster::note_health_check(ServiceRecord& record, WorkBudget& work) {
  if (auto check = record.model.health_check(node_.view(), work)) {
    health_checks_[record.name] = std::move(*check);
  } else {
    health_checks_.erase(record.name);
  }
}

void Cluster::report(const Planned& planned) {
  auto names = planned.changed;
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()),
              names.end());  // planned again for another one's claims
  auto changes = first_.is_reported() ? changes_of(names) : std::vector<PlanChange>{};
  for (const auto& service : planned.all) {
    services_.remove_if_empty(service);
  }
  if (!first_.is_reported()) {
    report_first();
  } else if (!changes.empty()) {
    plans_.apply(Batch::changes, std::move(changes));
  }
}

/// Reports one batch, once every service that existed at the start has a plan. Services added meanwhile are
/// included, but not waited for.
void Cluster::report_first() {
  if (!first_.is_complete() || report_ahead()) {
    return;
  }
  std::set<std::string> waiting;
  for (const auto& record : services_.records()) {
    if (ServiceRecords::lacks_labels(record)) {
      waiting.insert(waiting.end(), record.name);
    }
  }
  auto changes = changes_of(first_.report(std::move(waiting)));
  first_.forget_reported_ahead();
  for (const auto& service : first_.waiting()) {
    changes.push_back({service, {}, PlanState::waiting});
  }
  plans_.apply(Batch::whole, std::move(changes));
}

/// If there are thousands of services, reports some ahead in each turn. Returns whether others are left for
/// the next turn.
bool Cluster::report_ahead() {
  if (!turns_.are_divided() || first_.size() <= turns_.limits().first) {
    return false;
  }
  const auto some = first_.take(turns_.limits().first);
  auto changes = changes_of(some);
  if (!plans_.prepare(changes)) {
    first_.put_back(some);
    return false;
  }
  first_.reported_ahead(some);
  return true;
}

/// Removed services come first (REL-35).
template <class Names>
std::vector<PlanChange> Cluster::changes_of(const Names& finished) const {
  std::vector<PlanChange> changes;
  std::vector<PlanChange> present;
  for (const auto& service : finished) {
    const auto* const record = services_.find(service);
    if (record == nullptr) {  // the service was added and removed before the first batch was whole
      if (first_.was_reported_ahead(service)) {
        changes.push_back({service, {}});
      }
      continue;
    }
    auto plans = record->model.plans();
    (plans.ports.empty() ? changes : present).push_back(std::move(plans));
  }
  std::ranges::move(present, std::back_inserter(changes));
  return changes;
}

std::optional<PlanChange> Cluster::plans_after(const std::string& service) const {
  const auto* const next = services_.after(service);
  return next == nullptr ? std::nullopt : std::optional(next->model.plans());
}

ClusterCounts Cluster::counts() const {
  ClusterCounts counts;
  for (const auto& record : services_.records()) {
    counts.services += record.model.has_object() ? 1 : 0;
    counts.endpoints += record.model.endpoint_count();
    record.model.count_no_local(counts.no_local);
  }
  counts.slices = slices_.size();
  counts.waiting = services_.lacking_labels();
  counts.lost_frontends = claims_.frontends().lost_count();
  counts.complaints = complaints_.count();
  return counts;
}

}  // namespace lb::agent
