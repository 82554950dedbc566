// SPDX-License-Identifier: Apache-2.0
// Decides which of several services gets an address and port that they all claim.
#include "agent/plan/frontends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "maps/abi/abi.h"
#include "maps/abi/checks.h"
#include "maps/text.hpp"

namespace lb::agent {
namespace {

constexpr std::uint64_t claims_per_unit = 4;     ///< claims sorted and compared per unit
constexpr std::uint64_t units_among_rivals = 4;  ///< cost of a claim to a key with other claims

Frontends::Key key_of(const FrontendPlan& frontend, lb_protocol protocol) {
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

std::size_t Frontends::HashKey::operator()(const Key& key) const noexcept {
  const std::uint64_t address = AddressHash()(key.address);
  return lb_mix(address, std::uint64_t{key.port} << 8U | static_cast<std::uint64_t>(key.protocol));
}

bool Frontends::Stronger::operator()(const Claim& left, const Claim& right) const noexcept {
  const auto order = [](const Claim& claim) {
    return std::tuple(precedence(claim.kind), claim.who->age, std::string_view(claim.who->service),
                      std::string_view(claim.who->ports[claim.port]), claim.port);
  };
  return order(left) < order(right);
}

/// The first difference of the order.
const char* Frontends::why(const Claim& holder, const Claim& loser) noexcept {
  if (holder.kind != loser.kind) {
    return "its kind comes first";
  }
  if (holder.who == loser.who) {
    return "its port comes first";
  }
  return holder.who->age != loser.who->age ? "it is older" : "it is as old, and its name comes first";
}

std::optional<Frontends::Changes> Frontends::claim(const std::string& service, std::int64_t created,
                                                   std::span<const PortSpec> specs, WorkBudget& work) {
  auto& claimant = claimants_[service];
  if (!claimant) {
    claimant = std::make_unique<Claimant>();
    claimant->service = service;
  }
  if (!claimant->renewal) {
    claimant->renewal = renewal(*claimant, created, specs, work);
    count_cluster_ips(*claimant->renewal);
  }
  if (!proceed(*claimant, work)) {
    return std::nullopt;
  }
  auto renewed = std::move(*claimant->renewal);
  claimant->renewal.reset();
  claimant->claims = std::move(renewed.claims);
  if (claimant->claims.empty()) {
    claimants_.erase(service);
  }
  renewed.changes.touched.erase(service);
  return std::move(renewed.changes);
}

/// Claims under another age or other ports than before are new claims.
Frontends::Renewal Frontends::renewal(const Claimant& before, std::int64_t created,
                                      std::span<const PortSpec> specs, WorkBudget& work) {
  Renewal renewal;
  renewal.age = created == 0 ? std::numeric_limits<std::int64_t>::max() : created;
  for (std::uint32_t port = 0; port < specs.size(); ++port) {
    const auto& plan = specs[port].plan;
    renewal.ports.push_back(plan.key.name);
    for (const auto& frontend : plan.frontends) {
      renewal.claims.push_back({key_of(frontend, plan.key.protocol), frontend.kind, port});
    }
  }
  auto& claims = renewal.claims;
  std::ranges::sort(claims);
  claims.erase(std::unique(claims.begin(), claims.end()), claims.end());
  work.spend(claims.size() / claims_per_unit);
  renewal.is_renamed = before.age != renewal.age || before.ports != renewal.ports;
  if (renewal.is_renamed) {
    renewal.removed.claims = before.claims;
    renewal.added.claims = claims;
  } else {
    std::ranges::set_difference(before.claims, claims, std::back_inserter(renewal.removed.claims));
    std::ranges::set_difference(claims, before.claims, std::back_inserter(renewal.added.claims));
  }
  return renewal;
}

/// Removes old claims after adding new ones, so that each service that takes over a frontend is reported
/// once; but removes all of them before, if the order of claims changes.
bool Frontends::proceed(Claimant& claimant, WorkBudget& work) {
  auto& renewal = *claimant.renewal;
  if (renewal.is_renamed) {
    if (!take(claimant, renewal.removed, &Frontends::remove, work)) {
      return false;
    }
    claimant.age = renewal.age;
    claimant.ports = std::move(renewal.ports);
    renewal.is_renamed = false;
  }
  return take(claimant, renewal.added, &Frontends::add, work) &&
         take(claimant, renewal.removed, &Frontends::remove, work);
}

/// Processes as many claims as the budget allows. Returns whether all are done.
bool Frontends::take(Claimant& claimant, Part& part, Step step, WorkBudget& work) {
  for (; part.done < part.claims.size() && !work.is_over(); ++part.done) {
    (this->*step)(claimant, part.claims[part.done], work);
  }
  return part.done == part.claims.size();
}

void Frontends::note(const OwnClaim& own, Changes& changes) {
  if (own.kind == LB_CLUSTER_IP || own.kind == LB_NODE_PORT) {
    return;
  }
  changes.external_addresses.push_back(own.key.address);
}

void Frontends::add(Claimant& claimant, const OwnClaim& own, WorkBudget& work) {
  auto& changes = claimant.renewal->changes;
  note(own, changes);
  Claim claim{&claimant, own.port, own.kind};
  const auto [at, is_first] = by_key_.try_emplace(own.key, Claims{claim, nullptr});
  work.spend(is_first ? 1 : units_among_rivals);
  if (is_first) {
    return;
  }
  auto& claims = at->second;
  if (Stronger()(claim, claims.holder)) {
    changes.touched.insert(claims.holder.who->service);
    std::swap(claim, claims.holder);
  }
  add_other(claims, claim);
}

void Frontends::remove(Claimant& claimant, const OwnClaim& own, WorkBudget& work) {
  auto& changes = claimant.renewal->changes;
  note(own, changes);
  const auto at = by_key_.find(own.key);
  const Claim claim{&claimant, own.port, own.kind};
  auto& claims = at->second;
  work.spend(claims.others ? units_among_rivals : 1);
  if (!claims.others) {
    by_key_.erase(at);
  } else if (claims.holder != claim) {
    remove_other(claims, claims.others->find(claim));
  } else {
    const auto strongest = claims.others->begin();
    claims.holder = *strongest;
    changes.touched.insert(claims.holder.who->service);
    remove_other(claims, strongest);
  }
}

void Frontends::add_other(Claims& claims, const Claim& claim) {
  ++lost_;
  ++claim.who->lost;
  if (!claims.others) {
    claims.others = std::make_unique<Others>();
  }
  claims.others->insert(claim);
}

void Frontends::remove_other(Claims& claims, Others::iterator which) {
  --lost_;
  --which->who->lost;
  claims.others->erase(which);
  if (claims.others->empty()) {
    claims.others.reset();
  }
}

/// Counts ClusterIPs at once and before the claims, some of which may be removed in this turn and added again
/// in the next one: in between, an unchanged address must still count as a ClusterIP. Of two renewals that
/// cancel each other out, both are reported, because services may have been planned between them.
void Frontends::count_cluster_ips(const Renewal& renewal) {
  std::map<k8s::Address, int> changes;
  for (const auto& [part, change] : {std::pair(&renewal.added, 1), std::pair(&renewal.removed, -1)}) {
    for (const auto& own : part->claims) {
      if (own.kind == LB_CLUSTER_IP) {
        changes[own.key.address] += change;
      }
    }
  }
  for (const auto& [address, change] : changes) {
    const auto at = cluster_ips_.try_emplace(address, 0).first;
    const bool was_one = at->second > 0;
    at->second += static_cast<std::uint32_t>(change);
    const bool is_one = at->second > 0;
    if (was_one != is_one) {
      changed_.insert(address);
    }
    if (!is_one) {
      cluster_ips_.erase(at);
    }
  }
}

Frontends::Use Frontends::use_of(const Key& key, const std::string& service) const {
  if (cluster_ips_.contains(key.address)) {
    return Use::cluster_ip;
  }
  const auto found = claimants_.find(service);
  if (found == claimants_.end()) {
    return Use::none;
  }
  const auto& claims = found->second->claims;
  const auto at = std::ranges::lower_bound(claims, key, {}, &OwnClaim::key);
  return at != claims.end() && at->key == key ? Use::own : Use::none;
}

std::vector<k8s::Address> Frontends::take_changed() {
  const auto changed = std::exchange(changed_, {});
  return {changed.begin(), changed.end()};
}

std::vector<FrontendPlan> Frontends::held(const std::string& service, const ServicePortPlan& plan) const {
  std::vector<FrontendPlan> held;
  const auto found = claimants_.find(service);
  if (found == claimants_.end()) {
    return held;
  }
  const Claimant* const who = found->second.get();
  held.reserve(plan.frontends.size());
  std::ranges::copy_if(plan.frontends, std::back_inserter(held), [&](const auto& frontend) {
    const auto at = by_key_.find(key_of(frontend, plan.key.protocol));
    if (at == by_key_.end()) {
      return false;
    }
    const Claim& holder = at->second.holder;
    return holder.who == who && holder.kind == frontend.kind && who->ports[holder.port] == plan.key.name;
  });
  return held;
}

std::string Frontends::lost(const std::string& service) const {
  const auto found = claimants_.find(service);
  if (found == claimants_.end() || found->second->lost == 0) {
    return {};
  }
  Claimant& who = *found->second;
  const auto first = std::ranges::find_if(who.claims, [&](const OwnClaim& own) {
    return by_key_.find(own.key)->second.holder != Claim{&who, own.port, own.kind};
  });
  const Claim& holder = by_key_.find(first->key)->second.holder;
  const Claim claim{&who, first->port, first->kind};
  auto message = fmt::format(
      "{} {}/{} is not served for {}: {} holds it as {}, because {}", maps::word(first->kind),
      maps::socket_text(first->key.address.bytes, first->key.port), maps::word(first->key.protocol),
      who.ports[first->port], holder.who->ports[holder.port], maps::word(holder.kind), why(holder, claim));
  if (who.lost == 1) {
    return message;
  }
  const auto others = who.lost - 1;
  return fmt::format("{}; {} more of its frontends {} not served either", message, others,
                     others == 1 ? "is" : "are");
}

}  // namespace lb::agent
