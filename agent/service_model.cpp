// All that is known of one Service, and what was last planned from it.
#include "agent/service_model.hpp"

#include <algorithm>
#include <utility>

#include "k8s/peer_labels.hpp"

namespace lb::agent {

Change ServiceModel::set(k8s::Service service) {
  if (service_ == service) return Change::none;
  if (!service_ || service_->topology_keys != service.topology_keys) see_endpoints_anew();
  service_ = std::move(service);
  frame_is_stale_ = true;
  return Change::some;
}

void ServiceModel::unset() noexcept {
  service_.reset();
  frame_is_stale_ = true;
}

Change ServiceModel::put_slice(const k8s::EndpointSlice& slice) {
  const auto found = slices_.find(slice.key.name);
  auto compact = found == slices_.end() ? std::make_unique<CompactSlice>(slice)
                                        : std::make_unique<CompactSlice>(slice, *found->second);
  if (found != slices_.end() && *found->second == *compact) return Change::none;
  retire(slice.key.name);
  endpoint_count_ += compact->size();
  compact->for_each_address([this](const k8s::Address& address) { blocks_.add(address); });
  slices_.emplace(slice.key.name, std::move(compact));
  return Change::some;
}

void ServiceModel::erase_slice(const std::string& name) { retire(name); }

/// What came and went since the last replan() was never among the candidates.
void ServiceModel::retire(const std::string& slice) {
  const bool was_taken_in = changed_slices_.insert(slice).second;
  if (endpoints_ == Endpoints::settled) endpoints_ = Endpoints::slices_changed;
  const auto found = slices_.find(slice);
  if (found == slices_.end()) return;
  endpoint_count_ -= found->second->size();
  found->second->for_each_address([this](const k8s::Address& address) { blocks_.remove(address); });
  if (was_taken_in) retired_.push_back(std::move(found->second));
  slices_.erase(found);
}

std::set<std::string> ServiceModel::frame(const NodeView& node, const PlanOptions& options,
                                          Frontends& frontends) {
  if (!std::exchange(frame_is_stale_, false)) return {};
  ServiceFrame framed;
  if (service_) framed = lb::agent::frame(*service_, node, options);
  auto changes = frontends.claim(name_, service_ ? service_->created : 0, framed.ports);
  if (has_endpoints_in_blocks_of(changes.outside)) see_endpoints_anew();
  frame_complaints_ = std::move(framed.complaints);
  adopt(std::move(framed.ports));
  return std::move(changes.touched);
}

/// Only the service's own outside addresses matter to its endpoints.
bool ServiceModel::has_endpoints_in_blocks_of(const std::vector<k8s::Address>& addresses) const {
  return !slices_.empty() &&
         std::ranges::any_of(addresses, [this](const auto& address) { return blocks_.may_have(address); });
}

/// Keeps the endpoints and the plan of every port that stays.
void ServiceModel::adopt(std::vector<PortFrame> frames) {
  std::vector<Port> ports;
  std::size_t kept = 0;
  for (auto& frame : frames) {
    const auto old = std::find_if(ports_.begin(), ports_.end(),
                                  [&](const Port& port) { return port.frame.plan.key == frame.plan.key; });
    Port port;
    if (old != ports_.end()) {
      ++kept;
      port = std::move(*old);
    }
    port.frame = std::move(frame);
    ports.push_back(std::move(port));
  }
  ports_went_ = ports_went_ || kept < ports_.size();
  if (kept < ports_.size() && !skipped_.empty()) see_endpoints_anew();
  ports_ = std::move(ports);
  if (endpoints_ == Endpoints::settled) endpoints_ = Endpoints::slices_changed;
}

Change ServiceModel::replan(const NodeView& node, const Frontends& frontends) {
  Change change = std::exchange(ports_went_, false) ? Change::some : Change::none;
  const bool settled = endpoints_ == Endpoints::settled;
  if (!settled) settle(node, frontends);
  for (auto& port : ports_) {
    auto held = frontends.held(name_, port.frame.plan);
    if (settled && port.plan && port.plan->frontends == held) continue;
    if (replan(port, std::move(held)) == Change::some) change = Change::some;
  }
  return change;
}

void ServiceModel::settle(const NodeView& node, const Frontends& frontends) {
  static const std::vector<std::string> no_keys;
  const Viewpoint view{node, service_ ? service_->topology_keys : no_keys, &frontends, name_};
  if (endpoints_ == Endpoints::all_stale) skipped_.clear();
  for (const auto& name : changed_slices_) skipped_.erase(name);
  for (auto& port : ports_) {
    take_in(port, view);
    port.seen = Seen::before;
  }
  retired_.clear();
  changed_slices_.clear();
  endpoints_ = Endpoints::settled;
}

void ServiceModel::take_in(Port& port, const Viewpoint& view) {
  std::vector<Candidate> gone;
  std::vector<Candidate> fresh;
  const auto append = [&](const CompactSlice& slice) {
    auto sentence = slice.append(port.frame.plan.key, port.frame.port_name, view, fresh);
    if (!sentence.empty()) skipped_[slice.name()].insert(std::move(sentence));
  };
  if (port.seen == Seen::never || endpoints_ == Endpoints::all_stale) {
    port.candidates.clear();
    for (const auto& [name, slice] : slices_) append(*slice);
  } else {
    const Viewpoint all_of_them{view.node, view.topology_keys};
    for (const auto& slice : retired_) {
      static_cast<void>(slice->append(port.frame.plan.key, port.frame.port_name, all_of_them, gone));
    }
    for (const auto& name : changed_slices_) {
      const auto found = slices_.find(name);
      if (found != slices_.end()) append(*found->second);
    }
  }
  if (!fresh.empty() || !gone.empty()) port.candidates.update(gone, fresh);
}

Change ServiceModel::replan(Port& port, std::vector<FrontendPlan> held) {
  auto plan = complete(port.frame, port.candidates);
  plan.frontends = std::move(held);
  if (port.plan && *port.plan == plan) return Change::none;
  port.plan = std::make_shared<const ServicePortPlan>(std::move(plan));
  return Change::some;
}

void ServiceModel::count_no_local(NoLocal& counts) const {
  for (const auto& port : ports_) {
    if (!port.plan || port.plan->policy.local_empty != LB_DROP) continue;
    const auto in_local = [](const BackendPlan& backend) { return backend.in_local && backend.weight > 0; };
    if (std::ranges::any_of(port.plan->backends, in_local)) continue;
    const std::size_t family = port.plan->key.family == LB_IPV4 ? 0 : 1;
    counts.internal.at(family) += port.plan->policy.internal == LB_LOCAL ? 1 : 0;
    counts.external.at(family) += port.plan->policy.external == LB_LOCAL ? 1 : 0;
  }
}

PlanChange ServiceModel::plans() const {
  PlanChange change{name_, {}};
  for (const auto& port : ports_) change.ports.push_back(port.plan);
  return change;
}

std::optional<HealthCheck> ServiceModel::health_check(const NodeView& node,
                                                      const PlanOptions& options) const {
  if (!service_ || service_->type != k8s::ServiceType::load_balancer ||
      service_->external_policy != k8s::TrafficPolicy::local || service_->health_check_node_port == 0 ||
      lb::agent::frame(*service_, node, options).ports.empty()) {
    return std::nullopt;
  }
  HealthCheck check{service_->key, service_->health_check_node_port, {}};
  for (const auto& address : service_->cluster_ips) {
    check.local.at(address.family() == k8s::Family::ipv4 ? 0 : 1) = local_ready(address.family(), node);
  }
  return check;
}

/// An endpoint in two slices counts once (SEM-30).
std::size_t ServiceModel::local_ready(k8s::Family family, const NodeView& node) const {
  std::vector<k8s::Address> addresses;
  for (const auto& [name, slice] : slices_) {
    if (slice->family() == family) slice->append_local_ready(node.name, addresses);
  }
  std::sort(addresses.begin(), addresses.end());
  return static_cast<std::size_t>(std::unique(addresses.begin(), addresses.end()) - addresses.begin());
}

std::set<std::string> ServiceModel::complaints(const Frontends& frontends) const {
  std::set<std::string> complaints(frame_complaints_.begin(), frame_complaints_.end());
  if (auto sentence = frontends.lost(name_); !sentence.empty()) complaints.insert(std::move(sentence));
  for (const auto& [slice, sentences] : skipped_) complaints.insert(sentences.begin(), sentences.end());
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

void ServiceModel::append_listening(std::vector<ListeningPlace>& places) const {
  for (const auto& [name, slice] : slices_) slice->append_listening(places);
}

bool ServiceModel::has_cluster_ip(const std::vector<k8s::Address>& sorted) const {
  return service_ &&
         std::any_of(service_->cluster_ips.begin(), service_->cluster_ips.end(), [&](const auto& address) {
           return std::binary_search(sorted.begin(), sorted.end(), address);
         });
}

}  // namespace lb::agent
