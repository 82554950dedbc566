// Match the plan with what is there, reserve, write, flip, retire: in this order.
#include "agent/publisher.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include "agent/endpoint_ids.hpp"
#include "agent/endpoints.hpp"
#include "agent/maglev.hpp"

namespace lb::agent {

using maps::Extent;

/// Indexes from `begin` on, without `end`.
struct Publisher::Part {
  std::size_t begin;
  std::size_t end;
};

struct Publisher::Draft {
  std::vector<std::uint32_t> ids;       ///< one for each planned backend; 0: not yet known
  std::vector<std::uint32_t> created;   ///< indexes into ids
  std::vector<std::uint32_t> changed;   ///< indexes into ids whose entries may differ from the plan
  std::vector<std::uint32_t> revived;   ///< ids that were retired before
  std::vector<std::uint32_t> leftover;  ///< ids of backends that are no longer planned
  std::size_t prefix = 0;               ///< so many backends are as before, at the front
  std::size_t suffix = 0;               ///< and at the end
  std::vector<std::uint32_t> cluster_slots;
  std::vector<std::uint32_t> local_slots;
  Extent cluster;
  Extent local;
  BackendCounts counts;

  void add(std::size_t at) { created.push_back(static_cast<std::uint32_t>(at)); }

  void clear() {
    for (auto* list : {&ids, &created, &changed, &revived, &leftover, &cluster_slots, &local_slots})
      list->clear();
    prefix = suffix = 0;
  }
};

namespace {

lb_bool flag(bool value) { return value ? LB_YES : LB_NO; }

lb_backend backend_of(const BackendPlan& plan, std::uint32_t service) {
  lb_backend backend{};
  std::memcpy(static_cast<void*>(backend.address), plan.address.bytes.data(), sizeof(backend.address));
  backend.service = service;
  backend.locality = plan.locality;
  backend.in_cluster = flag(plan.in_cluster && plan.weight > 0);
  backend.in_local = flag(plan.in_local && plan.weight > 0);
  backend.serving = flag(plan.serving);
  backend.port = plan.port;
  backend.weight = plan.weight;
  return backend;
}

bool same_endpoint(const lb_backend& left, const lb_backend& right) {
  return left.port == right.port &&
         std::memcmp(static_cast<const void*>(left.address), static_cast<const void*>(right.address),
                     sizeof(left.address)) == 0;
}

/// Field by field: faster than by words that were just put together from bytes.
bool same_state(const lb_backend& left, const lb_backend& right) {
  return left.service == right.service && left.locality == right.locality &&
         left.in_cluster == right.in_cluster && left.in_local == right.in_local &&
         left.serving == right.serving && left.weight == right.weight;
}

lb_service row_of(const ServicePortPlan& plan, Extent cluster, Extent local) {
  lb_service row{};
  row.cluster = {.first = cluster.first, .count = cluster.count};
  row.local = {.first = local.first, .count = local.count};
  row.policy = plan.policy;
  row.affinity_seconds = plan.affinity_seconds;
  return row;
}

/// For 100,000 that are nearly all as they were: all of it is compared, whatever the first field says,
/// because a branch a field costs more than the fields.
bool equal(const BackendPlan& left, const BackendPlan& right) {
  using Words = std::array<std::uint64_t, 2>;
  const auto mine = std::bit_cast<Words>(left.address.bytes);
  const auto other = std::bit_cast<Words>(right.address.bytes);
  const auto difference = [](auto one, auto two) { return static_cast<std::uint64_t>(one ^ two); };
  return (difference(mine[0], other[0]) | difference(mine[1], other[1]) | difference(left.port, right.port) |
          difference(left.locality, right.locality) | difference(left.in_cluster, right.in_cluster) |
          difference(left.in_local, right.in_local) | difference(left.serving, right.serving) |
          difference(left.weight, right.weight)) == 0;
}

bool same_place(const BackendPlan& left, const BackendPlan& right) {
  return left.port == right.port && left.address == right.address;
}

OrderKey order_of(const BackendPlan& backend) { return {backend.address, backend.port}; }

bool in_set(const BackendPlan& backend, lb_scope scope) {
  return backend.weight > 0 && (scope == LB_LOCAL ? backend.in_local : backend.in_cluster);
}

/// The backends of one set before they are slots.
struct Members {
  std::uint32_t count = 0;
  std::uint32_t weights = 0;  ///< their sum
  unsigned divisor = 0;       ///< the greatest that all their weights have in common; 0: there are none

  /// 0: not in it. Branches only where weights differ: who is in a set is a mix that no branch predictor
  /// learns.
  void add(unsigned weight) {
    count += weight > 0 ? 1 : 0;
    weights += weight;
    const unsigned other = weight > 0 ? weight : divisor;
    if (other != divisor) divisor = std::gcd(divisor, other);
  }
};

struct BothSets {
  Members cluster;
  Members local;
};

BothSets sets_of(const ServicePortPlan& plan) {
  BothSets sets;
  for (const BackendPlan& backend : plan.backends) {
    sets.cluster.add(backend.in_cluster ? backend.weight : 0);
    sets.local.add(backend.in_local ? backend.weight : 0);
  }
  return sets;
}

void table_of(const ServicePortPlan& plan, lb_scope scope, const std::vector<std::uint32_t>& ids,
              std::uint32_t size, std::vector<std::uint32_t>& slots) {
  std::vector<MaglevMember> members;
  for (std::size_t at = 0; at < ids.size(); ++at) {
    const BackendPlan& backend = plan.backends[at];
    if (in_set(backend, scope)) members.push_back({backend.address, backend.port, backend.weight, ids[at]});
  }
  maglev_slots(members, size, slots);
}

/// Each backend as often as its weight says, reduced by the weights' common divisor; or a table of `maglev`
/// slots, where the service asks for that. `ids` runs beside plan.backends.
void slots_of(const ServicePortPlan& plan, lb_scope scope, const Members& members,
              const std::vector<std::uint32_t>& ids, std::uint32_t maglev,
              std::vector<std::uint32_t>& slots) {
  if (plan.policy.selection == LB_MAGLEV) return table_of(plan, scope, ids, maglev, slots);
  slots.clear();
  if (members.count == 0) return;
  slots.resize(members.weights / members.divisor + 1);
  auto slot = slots.begin();
  auto id = ids.begin();
  for (const BackendPlan& backend : plan.backends) {
    const unsigned times = in_set(backend, scope) ? backend.weight / members.divisor : 0;
    *slot = *id;  // the next one takes this place where `times` is 0: again no branch on who is in
    for (unsigned more = 1; more < times; ++more) slot[more] = *id;
    slot += times;
    ++id;
  }
  slots.pop_back();
}

}  // namespace

BackendCounts count_backends(const ServicePortPlan& plan) {
  const BothSets sets = sets_of(plan);
  return {.cluster = sets.cluster.count, .local = sets.local.count};
}

Publisher::Publisher(const maps::Store& store, Space& space, std::uint32_t maglev)
    : store_(store), space_(space), maglev_(maglev), draft_(std::make_unique<Draft>()) {}

Publisher::~Publisher() = default;

Shortage Publisher::publish(ServiceState& state, const std::shared_ptr<const ServicePortPlan>& published) {
  const ServicePortPlan& plan = *published;
  Draft& draft = *draft_;
  draft.clear();
  match(state, plan, draft);
  if (const Shortage shortage = reserve(state, plan, draft); shortage != Shortage::none) return shortage;
  write_backends(state, plan, draft);
  write_extent(state.cluster, draft.cluster, draft.cluster_slots);
  write_extent(state.local, draft.local, draft.local_slots);
  flip(state, plan, draft);
  if (draft.cluster != state.cluster) space_.retire(state.cluster);
  if (draft.local != state.local) space_.retire(state.local);
  for (const std::uint32_t id : draft.leftover) end_backend(id);
  state.ids = draft.ids;
  state.plan = published;
  state.cluster = draft.cluster;
  state.local = draft.local;
  state.counts = draft.counts;
  return Shortage::none;
}

void Publisher::withdraw(ServiceState& state) {
  store_.services.publish<offsetof(lb_service, cluster)>(state.number, {});
  store_.services.publish<offsetof(lb_service, local)>(state.number, {});
  space_.retire(std::exchange(state.cluster, {}));
  space_.retire(std::exchange(state.local, {}));
  for (const std::uint32_t id : std::exchange(state.ids, {})) end_backend(id);
  state.plan.reset();
}

// Most changes touch few of many backends, and the order is stable: what is equal at both ends is passed
// over, and only the middle is looked at closely. What is as in the plan before is not even read: the map's
// memory is the dearest of all that is passed through here.
void Publisher::match(const ServiceState& state, const ServicePortPlan& plan, Draft& draft) {
  const auto& ids = state.ids;
  const auto& backends = plan.backends;
  const BackendPlan* before = state.plan ? state.plan->backends.data() : nullptr;
  const auto same = [&](const std::uint32_t& id, const BackendPlan& wanted) {
    if (before != nullptr && equal(before[&id - ids.data()], wanted)) return true;
    const lb_backend found = store_.backends.load(id);
    const lb_backend next = backend_of(wanted, state.number);
    if (!same_endpoint(found, next)) return false;
    if (!same_state(found, next)) {
      draft.changed.push_back(static_cast<std::uint32_t>(&wanted - backends.data()));
    }
    return true;
  };
  const auto front = std::mismatch(ids.begin(), ids.end(), backends.begin(), backends.end(), same);
  const auto back = std::mismatch(ids.rbegin(), std::make_reverse_iterator(front.first), backends.rbegin(),
                                  std::make_reverse_iterator(front.second), same);
  draft.prefix = static_cast<std::size_t>(front.first - ids.begin());
  draft.suffix = static_cast<std::size_t>(back.first - ids.rbegin());
  draft.ids.assign(ids.begin(), front.first);
  draft.ids.resize(backends.size() - draft.suffix);
  draft.ids.insert(draft.ids.end(), back.first.base(), ids.end());
  match_middle(state, plan, draft);
}

void Publisher::match_middle(const ServiceState& state, const ServicePortPlan& plan, Draft& draft) {
  const Part old{draft.prefix, state.ids.size() - draft.suffix};
  const Part wanted{draft.prefix, plan.backends.size() - draft.suffix};
  if (state.plan) {
    match_in_order(state, plan, old, wanted, draft);
  } else {
    for (std::size_t at = old.begin; at < old.end; ++at) draft.leftover.push_back(state.ids[at]);
    for (std::size_t at = wanted.begin; at < wanted.end; ++at) draft.add(at);
  }
  match_rest(state, plan, draft);
}

/// Both plans are in one order: whoever of the two comes first in it has gone, or is new.
void Publisher::match_in_order(const ServiceState& state, const ServicePortPlan& plan, Part old, Part wanted,
                               Draft& draft) {
  const auto& before = state.plan->backends;
  while (old.begin < old.end && wanted.begin < wanted.end) {
    const BackendPlan& left = before[old.begin];
    const BackendPlan& right = plan.backends[wanted.begin];
    if (same_place(left, right)) {
      draft.ids[wanted.begin] = state.ids[old.begin++];
      if (!equal(left, right)) draft.changed.push_back(static_cast<std::uint32_t>(wanted.begin));
      ++wanted.begin;
    } else if (order_of(left) < order_of(right)) {
      draft.leftover.push_back(state.ids[old.begin++]);
    } else {
      draft.add(wanted.begin++);
    }
  }
  while (old.begin < old.end) draft.leftover.push_back(state.ids[old.begin++]);
  while (wanted.begin < wanted.end) draft.add(wanted.begin++);
}

/// What seems new may be what was adopted, in whatever order, or what was retired and is not yet forgotten.
void Publisher::match_rest(const ServiceState& state, const ServicePortPlan& plan, Draft& draft) {
  EndpointIds<std::size_t> known(store_.backends);  // to the index in leftover
  known.reserve(draft.leftover.size());
  for (std::size_t at = 0; at < draft.leftover.size(); ++at) known.emplace(draft.leftover[at], at);
  std::erase_if(draft.created, [&](std::uint32_t at) {
    const BackendPlan& backend = plan.backends[at];
    const Endpoint endpoint{.address = backend.address.bytes, .service = state.number, .port = backend.port};
    if (const auto found = known.find(endpoint); found != known.end()) {
      draft.ids[at] = std::exchange(draft.leftover[found->second], 0);
      known.erase(found);
    } else if (const auto revived = space_.revive(endpoint)) {
      draft.revived.push_back(draft.ids[at] = *revived);
    } else {
      return false;
    }
    draft.changed.push_back(at);
    return true;
  });
  std::erase(draft.leftover, 0);
}

Shortage Publisher::reserve(const ServiceState& state, const ServicePortPlan& plan, Draft& draft) {
  draft.cluster = state.cluster;
  draft.local = state.local;
  if (!reserve_ids(draft)) {
    for (const std::uint32_t id : draft.revived) space_.retire_backend(id);
    return Shortage::backends;
  }
  const BothSets sets = sets_of(plan);
  draft.counts = {.cluster = sets.cluster.count, .local = sets.local.count};
  slots_of(plan, LB_CLUSTER, sets.cluster, draft.ids, maglev_, draft.cluster_slots);
  slots_of(plan, LB_LOCAL, sets.local, draft.ids, maglev_, draft.local_slots);
  if (reserve_extent(state.cluster, draft.cluster_slots, draft.cluster) &&
      reserve_extent(state.local, draft.local_slots, draft.local)) {
    return Shortage::none;
  }
  cancel(state, draft);
  return Shortage::slots;
}

bool Publisher::reserve_ids(Draft& draft) {
  for (std::size_t count = 0; count < draft.created.size(); ++count) {
    const auto id = space_.backend();
    if (id) {
      draft.ids[draft.created[count]] = *id;
      continue;
    }
    while (count > 0) space_.cancel_backend(draft.ids[draft.created[--count]]);
    return false;
  }
  return true;
}

bool Publisher::reserve_extent(Extent current, const std::vector<std::uint32_t>& ids, Extent& next) {
  if (holds(current, ids)) return true;
  const auto extent = space_.slots(static_cast<std::uint32_t>(ids.size()));
  if (!extent) return false;
  next = *extent;
  return true;
}

void Publisher::cancel(const ServiceState& state, const Draft& draft) {
  if (draft.cluster != state.cluster) space_.cancel(draft.cluster);
  if (draft.local != state.local) space_.cancel(draft.local);
  for (const std::uint32_t at : draft.created) space_.cancel_backend(draft.ids[at]);
  for (const std::uint32_t id : draft.revived) space_.retire_backend(id);
}

void Publisher::write_backends(const ServiceState& state, const ServicePortPlan& plan, const Draft& draft) {
  for (const std::uint32_t at : draft.created) {
    store_.backends.store(draft.ids[at], backend_of(plan.backends[at], state.number));
  }
  for (const std::uint32_t at : draft.changed) {
    const lb_backend backend = backend_of(plan.backends[at], state.number);
    store_.backends.publish_change<offsetof(lb_backend, service)>(draft.ids[at], backend);
    store_.backends.publish_change<offsetof(lb_backend, port)>(draft.ids[at], backend);
  }
}

void Publisher::write_extent(Extent current, Extent next, const std::vector<std::uint32_t>& ids) {
  if (next == current) return;
  std::uint32_t slot = next.first;
  for (const std::uint32_t id : ids) store_.slots.store(slot++, id);
}

// A reader loads the policy, which names the set, and then the set: a set that the old or the new policy
// names is never empty in between unless it is empty in one of the two.
void Publisher::flip(const ServiceState& state, const ServicePortPlan& plan, const Draft& draft) {
  const lb_service next = row_of(plan, draft.cluster, draft.local);
  const auto publish_sets = [&](bool empty) {
    if ((next.cluster.count == 0) == empty) {
      store_.services.publish_change<offsetof(lb_service, cluster)>(state.number, next);
    }
    if ((next.local.count == 0) == empty) {
      store_.services.publish_change<offsetof(lb_service, local)>(state.number, next);
    }
  };
  publish_sets(false);
  store_.services.publish_change<offsetof(lb_service, affinity_seconds)>(state.number, next);
  store_.services.publish_change<offsetof(lb_service, policy)>(state.number, next);
  publish_sets(true);
}

void Publisher::end_backend(std::uint32_t id) {
  lb_backend ended = store_.backends.load(id);
  ended.in_cluster = ended.in_local = ended.serving = LB_NO;
  store_.backends.publish_change<offsetof(lb_backend, service)>(id, ended);
  space_.retire_backend(id);
}

bool Publisher::holds(Extent extent, const std::vector<std::uint32_t>& ids) const {
  if (extent.count != ids.size()) return false;
  return std::ranges::all_of(
      ids, [this, slot = extent.first](std::uint32_t id) mutable { return store_.slots.load(slot++) == id; });
}

Damage& Damage::operator+=(const Damage& more) noexcept {
  services += more.services;
  slots += more.slots;
  backends += more.backends;
  return *this;
}

Damage Publisher::damage(const ServiceState& state) {
  const ServicePortPlan& plan = *state.plan;
  Damage damage;
  for (std::size_t at = 0; at < state.ids.size(); ++at) {
    const lb_backend found = store_.backends.load(state.ids[at]);
    const lb_backend wanted = backend_of(plan.backends[at], state.number);
    damage.backends += same_endpoint(found, wanted) && same_state(found, wanted) ? 0 : 1;
  }
  const BothSets sets = sets_of(plan);
  slots_of(plan, LB_CLUSTER, sets.cluster, state.ids, maglev_, draft_->cluster_slots);
  slots_of(plan, LB_LOCAL, sets.local, state.ids, maglev_, draft_->local_slots);
  damage.slots =
      differences(state.cluster, draft_->cluster_slots) + differences(state.local, draft_->local_slots);
  const lb_service row = row_of(plan, state.cluster, state.local);
  damage.services = maps::EqualBytes()(store_.services.load(state.number), row) ? 0 : 1;
  return damage;
}

std::size_t Publisher::differences(Extent extent, const std::vector<std::uint32_t>& ids) const {
  std::size_t count = 0;
  for (std::uint32_t at = 0; at < extent.count; ++at) {
    count += store_.slots.load(extent.first + at) == ids[at] ? 0 : 1;
  }
  return count;
}

}  // namespace lb::agent
