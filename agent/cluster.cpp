// The model: every object that matters, and which services need planning again.
#include "agent/cluster.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lb::agent {
namespace {

/// Its endpoints are the API servers.
const std::string api_service = "default/kubernetes";

std::string zone_of(const Labels& labels) {
  const auto found = std::ranges::find(labels, k8s::zone_label, &Labels::value_type::first);
  return found == labels.end() ? std::string{} : found->second;
}

k8s::LabelKeys changed_keys(const Labels& before, const Labels& after) {
  Labels changed;
  std::ranges::set_symmetric_difference(before, after, std::back_inserter(changed));
  k8s::LabelKeys keys;
  for (auto& [key, value] : changed) keys.insert(std::move(key));
  return keys;
}

}  // namespace

Cluster::Cluster(std::string node, PlanOptions options, PlanSink& plans, Complain complain)
    : options_(std::move(options)), plans_(plans), complain_(std::move(complain)) {
  node_.name = std::move(node);
}

ServiceModel& Cluster::touch(const std::string& service) {
  dirty_.insert(service);
  auto& model = models_[service];
  if (!model) model = std::make_unique<ServiceModel>(service, blocks_);
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
    const auto before = std::exchange(node_.labels, node.labels);
    see_labels_anew(Whose::own, node.name, changed_keys(before, node.labels));
    if (std::exchange(node_.zone, zone) != zone) {
      for (auto& [key, model] : models_) touch(key).see_endpoints_anew();
    }
  }
  object_addresses_ = node.internal_ips;
  object_addresses_.insert(object_addresses_.end(), node.external_ips.begin(), node.external_ips.end());
  if (!object_addresses_.empty()) {
    node_.family = object_addresses_.front().family() == k8s::Family::ipv4 ? LB_IPV4 : LB_IPV6;
  }
  join_addresses();
  if (auto primary = primary_addresses(node); primary != std::exchange(node_.primary, primary)) {
    for (auto& [key, model] : models_) {
      if (model->has_load_balancer_ips()) touch(key).see_frontends_anew();
    }
  }
}

/// A Node without labels is as good as absent.
void Cluster::upsert_peer(k8s::Node node) {
  auto& labels = node_.peers[node.name];
  const auto changed = changed_keys(labels, node.labels);
  labels = std::move(node.labels);
  if (labels.empty()) node_.peers.erase(node.name);
  see_labels_anew(Whose::peers, node.name, changed);
}

void Cluster::erase_node(const std::string& name) {
  const auto found = node_.peers.find(name);
  if (found == node_.peers.end()) return;
  const auto gone = changed_keys(found->second, {});
  node_.peers.erase(found);
  see_labels_anew(Whose::peers, name, gone);
}

/// Labels other than the own zone matter to services with topology keys only (SEM-24), and those of another
/// Node only where endpoints are on it.
void Cluster::see_labels_anew(Whose whose, std::string_view node, const k8s::LabelKeys& changed) {
  if (changed.empty()) return;
  for (auto& [key, model] : models_) {
    if (!model->asks_for(changed)) continue;
    if (whose == Whose::own || model->has_endpoints_on(node)) touch(key).see_endpoints_anew();
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
    if (model->asks_for(changed)) touch(key).see_endpoints_anew();
  }
}

/// They keep what they have until labels_known() touches them again. Load balancers outside are answered all
/// the same: what is local hangs on no label of other Nodes.
void Cluster::set_waiting_aside(std::set<std::string>& services) {
  if (!known_labels_) return;
  std::erase_if(services, [this](const std::string& service) {
    const auto& model = *models_.at(service);
    if (std::ranges::includes(*known_labels_, model.peer_labels())) {
      waiting_.erase(service);
      return false;
    }
    waiting_.insert(service);
    note_health_check(service, model);
    return true;
  });
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

void Cluster::set_api_servers(std::vector<ListeningPlace> places) {
  asked_servers_ = std::move(places);
  join_api_servers();
}

void Cluster::join_api_servers() {
  auto joined = asked_servers_;
  const auto behind = models_.find(api_service);
  if (behind != models_.end()) behind->second->append_listening(joined);
  std::ranges::sort(joined);
  joined.erase(std::unique(joined.begin(), joined.end()), joined.end());
  if (joined == std::exchange(node_.api_servers, joined)) return;
  for (auto& [key, model] : models_) {
    if (model->has_external_ips() || model->has_load_balancer_ips()) touch(key).see_frontends_anew();
  }
}

/// A service that comes may have the address of another one's endpoint as its ClusterIP, or gives it free as
/// it goes.
void Cluster::see_endpoints_at(const std::vector<k8s::Address>& addresses, std::set<std::string>& services) {
  std::vector<k8s::Address> concerned;
  std::ranges::copy_if(addresses, std::back_inserter(concerned),
                       [this](const k8s::Address& address) { return blocks_.may_have(address); });
  if (concerned.empty()) return;
  for (auto& [key, model] : models_) {
    if (!model->has_endpoints_at(concerned)) continue;
    model->see_endpoints_anew();
    services.insert(key);
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
  if (dirty_.contains(api_service)) join_api_servers();
  auto services = std::exchange(dirty_, {});
  set_waiting_aside(services);
  std::set<std::string> others;
  for (const auto& service : services) others.merge(models_.at(service)->frame(node_, options_, frontends_));
  see_endpoints_at(frontends_.take_changed(), others);
  set_waiting_aside(others);
  services.merge(others);
  std::vector<PlanChange> changes;
  std::vector<PlanChange> present;
  for (const auto& service : services) {
    auto& model = *models_.at(service);
    const bool owed = owed_.erase(service) > 0;
    if (model.replan(node_, frontends_) == Change::some || owed) {
      auto plans = model.plans();
      (plans.ports.empty() ? changes : present).push_back(std::move(plans));
    }
    note_health_check(service, model);
    tell_complaints(service, model);
    forget_if_empty(service);
  }
  std::move(present.begin(), present.end(), std::back_inserter(changes));
  if (batch == Batch::whole) {
    owed_ = waiting_;
    for (const auto& service : owed_) changes.push_back({service, {}, Standing::waiting});
  }
  if (batch == Batch::whole || !changes.empty()) plans_.apply(batch, std::move(changes));
}

void Cluster::note_health_check(const std::string& service, const ServiceModel& model) {
  if (auto check = model.health_check(node_, options_)) {
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
