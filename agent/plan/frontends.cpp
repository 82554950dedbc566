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
#include "maps/text.hpp"

namespace lb::agent {
namespace {

constexpr std::uint64_t claims_a_unit = 4;  ///< that are put in order and compared

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

Frontends::Changes Frontends::claim(const std::string& service, std::int64_t created,
                                    std::span<const PortFrame> frames, WorkBudget& work) {
  const auto age = created == 0 ? std::numeric_limits<std::int64_t>::max() : created;
  std::vector<std::string> ports;
  std::vector<Made> claims;
  for (std::uint32_t port = 0; port < frames.size(); ++port) {
    const auto& plan = frames[port].plan;
    ports.push_back(plan.key.name);
    for (const auto& frontend : plan.frontends) {
      claims.push_back({key_of(frontend, plan.key.protocol), frontend.kind, port});
    }
  }
  std::ranges::sort(claims);
  claims.erase(std::unique(claims.begin(), claims.end()), claims.end());
  work.spend(claims.size() / claims_a_unit);
  Changes changes;
  auto& claimant = claimants_[service];
  if (!claimant) claimant = std::make_unique<Claimant>(Claimant{service, age, ports, {}, 0});
  if (claimant->age != age || claimant->ports != ports) {
    replace(*claimant, {}, changes, work);
    claimant->age = age;
    claimant->ports = std::move(ports);
  }
  replace(*claimant, std::move(claims), changes, work);
  if (claimant->claims.empty()) claimants_.erase(service);
  changes.touched.erase(service);
  return changes;
}

/// Those that go are removed after the others came: who takes a frontend over is named once.
void Frontends::replace(Claimant& claimant, std::vector<Made> claims, Changes& changes, WorkBudget& work) {
  const auto before = std::exchange(claimant.claims, std::move(claims));
  std::vector<Made> gone;
  std::ranges::set_difference(before, claimant.claims, std::back_inserter(gone));
  std::vector<Made> come;
  std::ranges::set_difference(claimant.claims, before, std::back_inserter(come));
  for (const auto& made : come) add(claimant, made, changes);
  for (const auto& made : gone) remove(claimant, made, changes);
  work.spend(come.size() + gone.size());
}

void Frontends::note(const Made& made, Changes& changes) {
  if (made.kind == LB_CLUSTER_IP || made.kind == LB_NODE_PORT) return;
  changes.outside.push_back(made.key.address);
}

void Frontends::add(Claimant& claimant, const Made& made, Changes& changes) {
  note(made, changes);
  count_cluster_ip(made, 1);
  Claim claim{&claimant, made.port, made.kind};
  const auto [at, is_first] = by_key_.try_emplace(made.key, Claims{claim, nullptr});
  if (is_first) return;
  auto& claims = at->second;
  if (Stronger()(claim, claims.holder)) {
    changes.touched.insert(claims.holder.who->service);
    std::swap(claim, claims.holder);
  }
  lose(claims, claim);
}

void Frontends::remove(Claimant& claimant, const Made& made, Changes& changes) {
  note(made, changes);
  count_cluster_ip(made, -1);
  const auto at = by_key_.find(made.key);
  const Claim claim{&claimant, made.port, made.kind};
  auto& claims = at->second;
  if (!claims.others) {
    by_key_.erase(at);
  } else if (claims.holder != claim) {
    lose_no_more(claims, claims.others->find(claim));
  } else {
    const auto strongest = claims.others->begin();
    claims.holder = *strongest;
    changes.touched.insert(claims.holder.who->service);
    lose_no_more(claims, strongest);
  }
}

void Frontends::lose(Claims& claims, const Claim& claim) {
  ++lost_;
  ++claim.who->lost;
  if (!claims.others) claims.others = std::make_unique<Others>();
  claims.others->insert(claim);
}

void Frontends::lose_no_more(Claims& claims, Others::iterator which) {
  --lost_;
  --which->who->lost;
  claims.others->erase(which);
  if (claims.others->empty()) claims.others.reset();
}

void Frontends::count_cluster_ip(const Made& made, int change) {
  if (made.kind != LB_CLUSTER_IP) return;
  auto& claims = cluster_ips_[made.key.address];
  claims += static_cast<std::uint32_t>(change);
  changes_[made.key.address] += change;
  if (claims == 0) cluster_ips_.erase(made.key.address);
}

Frontends::Use Frontends::use_of(const Key& key, const std::string& service) const {
  if (cluster_ips_.contains(key.address)) return Use::cluster_ip;
  const auto found = claimants_.find(service);
  if (found == claimants_.end()) return Use::none;
  const auto& claims = found->second->claims;
  const auto at = std::ranges::lower_bound(claims, key, {}, &Made::key);
  return at != claims.end() && at->key == key ? Use::own : Use::none;
}

std::vector<k8s::Address> Frontends::take_changed() {
  std::vector<k8s::Address> changed;
  for (const auto& [address, change] : std::exchange(changes_, {})) {
    if (change != 0) changed.push_back(address);
  }
  return changed;
}

std::vector<FrontendPlan> Frontends::held(const std::string& service, const ServicePortPlan& plan) const {
  std::vector<FrontendPlan> held;
  const auto found = claimants_.find(service);
  if (found == claimants_.end()) return held;
  const Claimant* const who = found->second.get();
  held.reserve(plan.frontends.size());
  std::ranges::copy_if(plan.frontends, std::back_inserter(held), [&](const auto& frontend) {
    const auto at = by_key_.find(key_of(frontend, plan.key.protocol));
    if (at == by_key_.end()) return false;
    const Claim& holder = at->second.holder;
    return holder.who == who && holder.kind == frontend.kind && who->ports[holder.port] == plan.key.name;
  });
  return held;
}

std::string Frontends::lost(const std::string& service) const {
  const auto found = claimants_.find(service);
  if (found == claimants_.end() || found->second->lost == 0) return {};
  Claimant& who = *found->second;
  const auto first = std::ranges::find_if(who.claims, [&](const Made& made) {
    return by_key_.find(made.key)->second.holder != Claim{&who, made.port, made.kind};
  });
  const Claim& holder = by_key_.find(first->key)->second.holder;
  auto sentence = fmt::format("{} {}/{} is not served for {}: {} holds it as {}", maps::word(first->kind),
                              maps::socket_text(first->key.address.bytes, first->key.port),
                              maps::word(first->key.protocol), who.ports[first->port],
                              holder.who->ports[holder.port], maps::word(holder.kind));
  if (who.lost == 1) return sentence;
  return fmt::format("{}; and so it is with {} more of its frontends", sentence, who.lost - 1);
}

}  // namespace lb::agent
