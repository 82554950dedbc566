// Who holds an address and port that several services claim.
#include "agent/frontends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string_view>
#include <utility>

#include "maps/text.hpp"

namespace lb::agent {
namespace {

Frontends::Place place_of(const FrontendPlan& frontend, lb_protocol protocol) {
  return {frontend.address, frontend.port, protocol};
}

}  // namespace

int precedence(lb_kind kind) noexcept {
  switch (kind) {
    case LB_CLUSTER_IP:
      return 0;
    case LB_LOAD_BALANCER:
      return 1;
    case LB_EXTERNAL_IP:
      return 2;
    case LB_NODE_PORT:
    case LB_NO_KIND:
      break;
  }
  return 3;
}

std::set<std::string> Frontends::claim(const std::string& service, std::int64_t created,
                                       std::span<const PortFrame> frames) {
  std::set<std::string> touched;
  withdraw(service, touched);
  const auto age = created == 0 ? std::numeric_limits<std::int64_t>::max() : created;
  for (const auto& frame : frames) {
    for (const auto& frontend : frame.plan.frontends) {
      add(place_of(frontend, frame.plan.key.protocol),
          {precedence(frontend.kind), age, service, frame.plan.key.name, frontend.kind}, touched);
    }
  }
  touched.erase(service);
  return touched;
}

void Frontends::withdraw(const std::string& service, std::set<std::string>& touched) {
  const auto found = services_.find(service);
  if (found == services_.end()) return;
  for (const auto& place : found->second) {
    const auto at = places_.find(place);
    if (at == places_.end()) continue;
    auto& claims = at->second;
    lost_ -= claims.size() - 1;
    std::erase_if(claims, [&](const Claim& claim) {
      if (claim.service != service) return false;
      unnote(place, claim);
      return true;
    });
    if (claims.empty()) {
      places_.erase(at);
      continue;
    }
    lost_ += claims.size() - 1;
    for (const auto& claim : claims) touched.insert(claim.service);
  }
  services_.erase(found);
}

void Frontends::add(const Place& place, Claim claim, std::set<std::string>& touched) {
  services_[claim.service].push_back(place);
  auto& claims = places_[place];
  for (const auto& other : claims) touched.insert(other.service);
  const bool had_holder = !claims.empty();
  const auto [inserted, is_new] = claims.insert(std::move(claim));
  if (!is_new) return;
  note(place, *inserted);
  if (had_holder) ++lost_;
}

std::size_t Frontends::HashAddress::operator()(const k8s::Address& address) const noexcept {
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(address.bytes.data()), address.bytes.size()});
}

void Frontends::note(const Place& place, const Claim& claim) {
  if (claim.kind == LB_NODE_PORT) return;
  auto& uses = uses_[place.address];
  ++uses.claims;
  uses.cluster_ips += claim.kind == LB_CLUSTER_IP ? 1 : 0;
  ++changes_[{place, claim.kind}];
}

void Frontends::unnote(const Place& place, const Claim& claim) {
  const auto found = uses_.find(place.address);
  if (claim.kind == LB_NODE_PORT || found == uses_.end()) return;
  found->second.cluster_ips -= claim.kind == LB_CLUSTER_IP ? 1 : 0;
  if (--found->second.claims == 0) uses_.erase(found);
  --changes_[{place, claim.kind}];
}

Frontends::Use Frontends::use_of(const Place& place) const {
  const auto found = uses_.find(place.address);
  if (found == uses_.end()) return Use::none;
  if (found->second.cluster_ips > 0) return Use::cluster_ip;
  return places_.contains(place) ? Use::outside : Use::none;
}

std::vector<k8s::Address> Frontends::take_changed() {
  std::set<k8s::Address> changed;
  for (const auto& [place, change] : std::exchange(changes_, {})) {
    if (change != 0) changed.insert(place.first.address);
  }
  return {changed.begin(), changed.end()};
}

std::vector<FrontendPlan> Frontends::held(const std::string& service, const ServicePortPlan& plan) const {
  std::vector<FrontendPlan> held;
  std::copy_if(
      plan.frontends.begin(), plan.frontends.end(), std::back_inserter(held), [&](const auto& frontend) {
        const auto at = places_.find(place_of(frontend, plan.key.protocol));
        if (at == places_.end()) return false;
        const Claim& holder = *at->second.begin();
        return holder.service == service && holder.port_name == plan.key.name && holder.kind == frontend.kind;
      });
  return held;
}

std::vector<std::string> Frontends::lost(const std::string& service) const {
  std::vector<std::string> sentences;
  const auto found = services_.find(service);
  if (found == services_.end()) return sentences;
  for (const auto& place : found->second) {
    const auto& claims = places_.at(place);
    const Claim& holder = *claims.begin();
    for (const auto& claim : claims) {
      if (claim.service != service || claim == holder) continue;
      sentences.push_back(
          fmt::format("{} {}/{} is not served for {}: {} holds it as {}", maps::word(claim.kind),
                      maps::socket_text(place.address.bytes, place.port), maps::word(place.protocol),
                      claim.port_name, holder.port_name, maps::word(holder.kind)));
    }
  }
  std::sort(sentences.begin(), sentences.end());
  sentences.erase(std::unique(sentences.begin(), sentences.end()), sentences.end());
  return sentences;
}

}  // namespace lb::agent
