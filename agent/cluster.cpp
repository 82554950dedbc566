// The model: every object that matters, and which services need planning again.
#include "agent/cluster.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lb::agent {
namespace {

std::string zone_of(const Labels& labels) {
  const auto found =
      std::find_if(labels.begin(), labels.end(), [](const auto& label) { return label.first == zone_label; });
  return found == labels.end() ? std::string{} : found->second;
}

}  // namespace

Cluster::Cluster(std::string node, PlanOptions options, PlanSink& plans, Complain complain)
    : options_(std::move(options)), plans_(plans), complain_(std::move(complain)) {
  node_.name = std::move(node);
}

ServiceModel& Cluster::touch(const std::string& service) {
  dirty_.insert(service);
  auto& model = models_[service];
  if (!model) model = std::make_unique<ServiceModel>(service);
  return *model;
}

void Cluster::upsert(k8s::Service service) {
  const auto key = service.key.text();
  services_.insert(key);
  touch(key).set(std::move(service));
}

void Cluster::erase_service(const k8s::ObjectKey& key) {
  if (services_.erase(key.text()) > 0) touch(key.text()).unset();
}

/// A slice that changes its service leaves the old one first (SEM-4); one without a service is as good as
/// absent.
void Cluster::upsert(k8s::EndpointSlice slice) {
  const auto key = slice.key.text();
  const auto service = k8s::ObjectKey{slice.key.name_space, slice.service}.text();
  const auto found = slices_.find(key);
  if (found != slices_.end() && found->second.service != service) erase_slice(slice.key);
  if (slice.service.empty()) return;
  auto& known = slices_[key];
  known.service = service;
  known.family = slice.family;
  note_triggers(slice, known, touch(service).put_slice(slice));
}

/// A slice that is told again as it was is no change (SEM-88).
void Cluster::note_triggers(const k8s::EndpointSlice& slice, Slice& known, Change change) {
  for (const auto trigger : slice.triggers) {
    if (change == Change::some || trigger != known.trigger) {
      triggers_.add({known.service, known.family}, trigger);
    }
    known.trigger = trigger;
  }
}

TriggerTimes::Pending Cluster::take_triggers() {
  return is_synced_ && dirty_.empty() ? triggers_.take() : TriggerTimes::Pending{};
}

void Cluster::erase_slice(const k8s::ObjectKey& key) {
  const auto known = slices_.find(key.text());
  if (known == slices_.end()) return;
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
    node_.labels = node.labels;
    see_labels_anew();
    if (std::exchange(node_.zone, zone) != zone) {
      for (auto& [key, model] : models_) touch(key).see_endpoints_anew();
    }
  }
  object_addresses_ = node.internal_ips;
  object_addresses_.insert(object_addresses_.end(), node.external_ips.begin(), node.external_ips.end());
  join_addresses();
}

void Cluster::upsert_peer(k8s::Node node) {
  auto& labels = node_.peers[node.name];
  if (std::exchange(labels, std::move(node.labels)) != labels) see_labels_anew();
}

void Cluster::erase_node(const std::string& name) {
  if (node_.peers.erase(name) > 0) see_labels_anew();
}

/// Labels other than the own zone matter to services with topology keys only (SEM-24).
void Cluster::see_labels_anew() {
  for (auto& [key, model] : models_) {
    if (model->wants_labels()) touch(key).see_endpoints_anew();
  }
}

void Cluster::set_addresses(std::vector<k8s::Address> addresses) {
  device_addresses_ = std::move(addresses);
  join_addresses();
}

void Cluster::join_addresses() {
  auto joined = object_addresses_;
  joined.insert(joined.end(), device_addresses_.begin(), device_addresses_.end());
  std::sort(joined.begin(), joined.end());
  joined.erase(std::unique(joined.begin(), joined.end()), joined.end());
  const auto before = std::exchange(node_.addresses, joined);
  std::vector<k8s::Address> changed;
  std::set_symmetric_difference(before.begin(), before.end(), joined.begin(), joined.end(),
                                std::back_inserter(changed));
  if (changed.empty()) return;
  for (auto& [key, model] : models_) {
    if (model->has_external_ips() || model->has_cluster_ip(changed)) touch(key).see_frontends_anew();
  }
}

void Cluster::complain(k8s::Complaint complaint) {
  ++complaint_count_;
  if (complain_) complain_(std::move(complaint));
}

void Cluster::flush() {
  if (is_synced_ && !dirty_.empty()) publish(Batch::changes);
}

void Cluster::synced() {
  if (std::exchange(is_synced_, true)) return;
  publish(Batch::whole);
}

/// All frames come before all plans, because who holds a frontend is known only when all claims are.
void Cluster::publish(Batch batch) {
  auto services = std::exchange(dirty_, {});
  std::set<std::string> others;
  for (const auto& service : services) others.merge(models_.at(service)->frame(node_, options_, frontends_));
  services.merge(others);
  std::vector<PlanChange> changes;
  std::vector<PlanChange> present;
  for (const auto& service : services) {
    auto& model = *models_.at(service);
    if (model.replan(node_, frontends_) == Change::some) {
      auto plans = model.plans();
      (plans.ports.empty() ? changes : present).push_back(std::move(plans));
    }
    note_health_check(service, model);
    tell_complaints(service, model);
    forget_if_empty(service);
  }
  std::move(present.begin(), present.end(), std::back_inserter(changes));
  if (batch == Batch::whole || !changes.empty()) plans_.apply(batch, std::move(changes));
}

void Cluster::note_health_check(const std::string& service, const ServiceModel& model) {
  if (auto check = model.health_check(node_)) {
    health_checks_[service] = std::move(*check);
  } else {
    health_checks_.erase(service);
  }
}

void Cluster::tell_complaints(const std::string& service, const ServiceModel& model) {
  auto complaints = model.complaints(frontends_);
  auto& told = told_[service];
  for (const auto& reason : complaints) {
    if (!told.contains(reason)) complain({"Service " + service, "", reason});
  }
  told = std::move(complaints);
  if (told.empty()) told_.erase(service);
}

void Cluster::forget_if_empty(const std::string& service) {
  const auto found = models_.find(service);
  if (found != models_.end() && found->second->is_empty()) models_.erase(found);
}

ClusterCounts Cluster::counts() const {
  ClusterCounts counts;
  counts.services = services_.size();
  counts.slices = slices_.size();
  for (const auto& [key, model] : models_) {
    counts.endpoints += model->endpoint_count();
    model->count_no_local(counts.no_local);
  }
  counts.lost_frontends = frontends_.lost_count();
  counts.complaints = complaint_count_;
  return counts;
}

}  // namespace lb::agent
