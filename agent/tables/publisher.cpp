// SPDX-License-Identifier: Apache-2.0
// Publishes in this order: compare the plan with the arrays, reserve, write, publish, retire.
#include "agent/tables/publisher.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>

#include "agent/plan/endpoints.hpp"
#include "agent/plan/rendezvous.hpp"
#include "agent/plan/weight_slots.hpp"
#include "agent/tables/backend_ids.hpp"

namespace lb::agent {

using maps::Extent;

/// A backend of the plan, and the position of its id.
struct Publisher::Entry {
  std::uint32_t at;  ///< index into Draft::ids
  const BackendPlan* backend;
};

struct Publisher::Draft {
  std::vector<std::uint32_t> ids;       ///< one for each planned backend; 0: unknown so far
  std::vector<Entry> created;           ///< backends without an id
  std::vector<Entry> changed;           ///< backends whose entries may differ from the plan
  std::vector<std::uint32_t> revived;   ///< ids that are retired until everything is reserved
  std::vector<std::uint32_t> leftover;  ///< ids of backends that are no longer planned
  std::vector<std::uint32_t> cluster_slots;
  std::vector<std::uint32_t> local_slots;
  Extent cluster;
  Extent local;
  bool keeps_tables = false;  ///< both sets stay as they are, and have no list of slots here

  void clear() {
    for (auto* list : {&ids, &cluster_slots, &local_slots}) {
      list->clear();
    }
    forget_changes();
  }
  /// Frees the memory of a first plan, in which everything is new; later changes are small.
  void forget_changes() {
    for (auto* list : {&revived, &leftover}) {
      *list = {};
    }
    for (auto* list : {&created, &changed}) {
      *list = {};
    }
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

/// Compares field by field: faster than by words that were just assembled from bytes.
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
  if (plan.policy.selection == LB_RANDOM) {
    row.policy.weight_error = std::max(WeightSlots(plan.backends, LB_CLUSTER).error_percent(),
                                       WeightSlots(plan.backends, LB_LOCAL).error_percent());
  }
  row.affinity_seconds = plan.affinity_seconds;
  return row;
}

bool same_address(const BackendPlan& left, const BackendPlan& right) {
  return left.port == right.port && left.address == right.address;
}

OrderKey order_of(const BackendPlan& backend) { return {backend.address, backend.port}; }

bool in_set(const BackendPlan& backend, lb_scope scope) {
  return backend.weight > 0 && (scope == LB_LOCAL ? backend.in_local : backend.in_cluster);
}

void table_of(const BackendList& backends, lb_scope scope, const std::vector<std::uint32_t>& ids,
              std::uint32_t size, std::vector<std::uint32_t>& slots) {
  std::vector<RendezvousMember> members;
  auto id = ids.begin();
  for (const BackendPlan& backend : backends) {
    if (in_set(backend, scope)) {
      members.push_back({backend.address, backend.port, backend.weight, *id});
    }
    ++id;
  }
  rendezvous_slots(members, size, slots);
}

using Slot = std::vector<std::uint32_t>::iterator;
using Id = std::vector<std::uint32_t>::const_iterator;

/// Writes one slot for each member. A non-member's slot is overwritten by the next member: branching on
/// membership would be unpredictable.
Slot fill_once(const BackendChunk& chunk, lb_scope scope, Id id, Slot slot) {
  if (chunk.members(scope).count == chunk.size()) {
    return std::copy_n(id, chunk.size(), slot);
  }
  for (std::size_t at = 0; at < chunk.size(); ++at) {
    *slot = *id++;
    slot += chunk.has(scope, at) ? 1 : 0;
  }
  return slot;
}

Slot fill_by_weight(const BackendChunk& chunk, lb_scope scope, const WeightSlots& weights, Id id, Slot slot) {
  for (const BackendPlan& backend : chunk.backends()) {
    slot = std::fill_n(slot, in_set(backend, scope) ? weights.of(backend.weight) : 0, *id++);
  }
  return slot;
}

/// Each backend gets the slots of its weight; or the service gets a table of `consistent_slots` slots, for
/// consistent selection. `ids` is parallel to plan.backends.
void slots_of(const ServicePortPlan& plan, lb_scope scope, const std::vector<std::uint32_t>& ids,
              std::uint32_t consistent_slots, std::vector<std::uint32_t>& slots) {
  if (plan.policy.selection == LB_CONSISTENT) {
    return table_of(plan.backends, scope, ids, consistent_slots, slots);
  }
  slots.clear();
  const WeightSlots weights(plan.backends, scope);
  if (weights.all() == 0) {
    return;
  }
  slots.resize(weights.all() + 1);  // one more, for fill_once() to write to
  auto slot = slots.begin();
  auto id = ids.begin();
  for (const auto& chunk : plan.backends.chunks()) {
    if (chunk->members(scope).count > 0) {
      slot = weights.are_equal() ? fill_once(*chunk, scope, id, slot)
                                 : fill_by_weight(*chunk, scope, weights, id, slot);
    }
    id += static_cast<std::ptrdiff_t>(chunk->size());
  }
  slots.pop_back();
}

constexpr std::uint64_t sum_start = 0xcbf29ce484222325ULL;

/// Adds a slot to a sum that differs with every slot and its position (FNV-1a).
std::uint64_t add_slot(std::uint64_t sum, std::uint32_t id) { return (sum ^ id) * 0x100000001b3ULL; }

std::uint64_t sum_of(const std::vector<std::uint32_t>& slots) {
  return std::accumulate(slots.begin(), slots.end(), sum_start, add_slot);
}

}  // namespace

BackendCounts count_backends(const ServicePortPlan& plan) {
  return {.cluster = plan.backends.members(LB_CLUSTER).count, .local = plan.backends.members(LB_LOCAL).count};
}

Publisher::Publisher(const maps::Store& store, IdReclaimer& reclaimer, std::uint32_t consistent_slots)
    : store_(store),
      reclaimer_(reclaimer),
      consistent_slots_(consistent_slots),
      draft_(std::make_unique<Draft>()) {}

Publisher::~Publisher() = default;

Shortage Publisher::publish(ServiceState& state, const std::shared_ptr<const ServicePortPlan>& published) {
  if (state.plan == published) {
    return Shortage::none;  // already published; repair() checks whether it is
                            // still intact
  }
  const ServicePortPlan& plan = *published;
  Draft& draft = *draft_;
  draft.clear();
  match(state, plan, draft);
  if (const Shortage shortage = reserve(state, plan, draft); shortage != Shortage::none) {
    return shortage;
  }
  for (const std::uint32_t id : draft.revived) {
    reclaimer_.revive(id);
  }
  write_backends(state, draft);
  write_extent(state.cluster, draft.cluster, draft.cluster_slots);
  write_extent(state.local, draft.local, draft.local_slots);
  switch_sets(state, plan, draft);
  if (draft.cluster != state.cluster) {
    reclaimer_.retire(state.cluster);
  }
  if (draft.local != state.local) {
    reclaimer_.retire(state.local);
  }
  for (const std::uint32_t id : draft.leftover) {
    end_backend(id);
  }
  state.ids = draft.ids;
  state.plan = published;
  state.cluster = draft.cluster;
  state.local = draft.local;
  if (plan.policy.selection == LB_CONSISTENT && !draft.keeps_tables) {
    state.cluster_sum = sum_of(draft.cluster_slots);
    state.local_sum = sum_of(draft.local_slots);
  }
  state.counts = count_backends(plan);
  draft.forget_changes();
  return Shortage::none;
}

void Publisher::withdraw(ServiceState& state) {
  store_.services.publish<offsetof(lb_service, cluster)>(state.number, {});
  store_.services.publish<offsetof(lb_service, local)>(state.number, {});
  reclaimer_.retire(std::exchange(state.cluster, {}));
  reclaimer_.retire(std::exchange(state.local, {}));
  for (const std::uint32_t id : std::exchange(state.ids, {})) {
    end_backend(id);
  }
  state.plan.reset();
}

void Publisher::restrict_sources(ServiceState& state) {
  lb_service row = store_.services.load(state.number);
  if (row.policy.source_ranges == LB_YES) {
    return;
  }
  row.policy.source_ranges = LB_YES;
  store_.services.publish_change<offsetof(lb_service, policy)>(state.number, row);
  if (!state.plan) {
    return;
  }
  auto plan = std::make_shared<ServicePortPlan>(*state.plan);
  plan->policy.source_ranges = LB_YES;
  state.plan = std::move(plan);
}

std::uint32_t Publisher::lower(ServiceState& state, std::uint32_t limit) {
  const auto cluster = state.cluster;
  const auto local = state.local;
  std::uint32_t moved = 0;
  lb_service row = store_.services.load(state.number);
  if (lower_extent(state.cluster, limit)) {
    row.cluster = {.first = state.cluster.first, .count = state.cluster.count};
    store_.services.publish<offsetof(lb_service, cluster)>(state.number, row);
    reclaimer_.retire(cluster);
    moved += cluster.count;
  }
  if (lower_extent(state.local, limit)) {
    row.local = {.first = state.local.first, .count = state.local.count};
    store_.services.publish<offsetof(lb_service, local)>(state.number, row);
    reclaimer_.retire(local);
    moved += local.count;
  }
  return moved;
}

/// Copies the slots; nothing reads the new extent yet.
bool Publisher::lower_extent(Extent& extent, std::uint32_t limit) {
  if (extent.first + extent.count <= limit) {
    return false;
  }
  const auto next = reclaimer_.slots(extent.count);
  if (!next) {
    return false;
  }
  if (next->first + next->count > limit) {
    reclaimer_.cancel(*next);
    return false;
  }
  for (std::uint32_t at = 0; at < extent.count; ++at) {
    store_.slots.store(next->first + at, store_.slots.load(extent.first + at));
  }
  extent = *next;
  return true;
}

// Backends unchanged since the previous plan are not even read from the map: its memory is the most expensive
// access here.
void Publisher::match(const ServiceState& state, const ServicePortPlan& plan, Draft& draft) {
  draft.ids.resize(plan.backends.size());
  if (state.plan) {
    match_in_order(state, plan, draft);
  } else {
    match_adopted(state, plan, draft);
  }
  match_rest(state, draft);
}

/// Both plans are sorted alike: an entry in only one of them was removed or added. Chunks in both are
/// skipped.
void Publisher::match_in_order(const ServiceState& state, const ServicePortPlan& plan, Draft& draft) {
  auto old = state.plan->backends.begin();
  auto wanted = plan.backends.begin();
  const auto old_end = state.plan->backends.end();
  const auto wanted_end = plan.backends.end();
  auto old_id = state.ids.begin();
  std::uint32_t at = 0;
  const auto drop = [&] {
    draft.leftover.push_back(*old_id++);
    ++old;
  };
  const auto add = [&] { draft.created.push_back({at++, &*wanted++}); };
  while (old != old_end && wanted != wanted_end) {
    if (share_chunk(old, wanted)) {
      const auto size = wanted.begun()->size();
      std::copy_n(old_id, size, draft.ids.begin() + at);
      old_id += static_cast<std::ptrdiff_t>(size);
      at += static_cast<std::uint32_t>(size);
      old.skip_chunk();
      wanted.skip_chunk();
    } else if (same_address(*old, *wanted)) {
      draft.ids[at] = *old_id++;
      if (*old != *wanted) {
        draft.changed.push_back({at, &*wanted});
      }
      ++at;
      ++old;
      ++wanted;
    } else if (order_of(*old) < order_of(*wanted)) {
      drop();
    } else {
      add();
    }
  }
  while (old != old_end) {
    drop();
  }
  while (wanted != wanted_end) {
    add();
  }
}

/// Another agent published these backends. Only the map has their order, which is usually this one.
void Publisher::match_adopted(const ServiceState& state, const ServicePortPlan& plan, Draft& draft) {
  auto id = state.ids.begin();
  std::uint32_t at = 0;
  auto wanted = plan.backends.begin();
  for (; id != state.ids.end() && wanted != plan.backends.end(); ++id, ++at, ++wanted) {
    const lb_backend found = store_.backends.load(*id);
    const lb_backend next = backend_of(*wanted, state.number);
    if (!same_endpoint(found, next)) {
      break;
    }
    if (!same_state(found, next)) {
      draft.changed.push_back({at, &*wanted});
    }
    draft.ids[at] = *id;
  }
  draft.leftover.assign(id, state.ids.end());
  for (; wanted != plan.backends.end(); ++wanted) {
    draft.created.push_back({at++, &*wanted});
  }
}

/// A backend that seems new may be an adopted one at another position, or a retired one that is not free yet.
void Publisher::match_rest(const ServiceState& state, Draft& draft) {
  BackendIdMap<std::size_t> known(store_.backends);  // to the index in leftover
  known.reserve(draft.leftover.size());
  for (std::size_t at = 0; at < draft.leftover.size(); ++at) {
    known.emplace(draft.leftover[at], at);
  }
  std::erase_if(draft.created, [&](const Entry& entry) {
    const BackendPlan& backend = *entry.backend;
    const BackendKey key{.address = backend.address.bytes, .service = state.number, .port = backend.port};
    if (const auto found = known.find(key); found != known.end()) {
      draft.ids[entry.at] = std::exchange(draft.leftover[found->second], 0);
      known.erase(found);
    } else if (const auto retired = reclaimer_.find_retired(key)) {
      draft.revived.push_back(draft.ids[entry.at] = *retired);
    } else {
      return false;
    }
    draft.changed.push_back(entry);
    return true;
  });
  std::erase(draft.leftover, 0);
}

Shortage Publisher::reserve(const ServiceState& state, const ServicePortPlan& plan, Draft& draft) {
  draft.cluster = state.cluster;
  draft.local = state.local;
  if (!reserve_ids(draft)) {
    return Shortage::backends;
  }
  draft.keeps_tables = keeps_tables(state, plan, draft);
  if (draft.keeps_tables) {
    return Shortage::none;
  }
  slots_of(plan, LB_CLUSTER, draft.ids, consistent_slots_, draft.cluster_slots);
  slots_of(plan, LB_LOCAL, draft.ids, consistent_slots_, draft.local_slots);
  if (reserve_extent(state.cluster, draft.cluster_slots, draft.cluster) &&
      reserve_extent(state.local, draft.local_slots, draft.local)) {
    return Shortage::none;
  }
  cancel(state, draft);
  return Shortage::slots;
}

/// A table of consistent selection depends on nothing but the backends, and takes a nanosecond for each
/// backend and slot to compute. One that another program changed has another sum, and is written again.
bool Publisher::keeps_tables(const ServiceState& state, const ServicePortPlan& plan,
                             const Draft& draft) const {
  return state.plan && state.plan->policy.selection == LB_CONSISTENT &&
         plan.policy.selection == LB_CONSISTENT && draft.created.empty() && draft.changed.empty() &&
         draft.leftover.empty() && sum_in(state.cluster) == state.cluster_sum &&
         sum_in(state.local) == state.local_sum;
}

bool Publisher::reserve_ids(Draft& draft) {
  for (std::size_t count = 0; count < draft.created.size(); ++count) {
    const auto id = reclaimer_.backend();
    if (id) {
      draft.ids[draft.created[count].at] = *id;
      continue;
    }
    while (count > 0) {
      reclaimer_.cancel_backend(draft.ids[draft.created[--count].at]);
    }
    return false;
  }
  return true;
}

bool Publisher::reserve_extent(Extent current, const std::vector<std::uint32_t>& ids, Extent& next) {
  if (holds(current, ids)) {
    return true;
  }
  const auto extent = reclaimer_.slots(static_cast<std::uint32_t>(ids.size()));
  if (!extent) {
    return false;
  }
  next = *extent;
  return true;
}

void Publisher::cancel(const ServiceState& state, const Draft& draft) {
  if (draft.cluster != state.cluster) {
    reclaimer_.cancel(draft.cluster);
  }
  if (draft.local != state.local) {
    reclaimer_.cancel(draft.local);
  }
  for (const Entry& entry : draft.created) {
    reclaimer_.cancel_backend(draft.ids[entry.at]);
  }
}

void Publisher::write_backends(const ServiceState& state, const Draft& draft) {
  for (const Entry& entry : draft.created) {
    store_.backends.store(draft.ids[entry.at], backend_of(*entry.backend, state.number));
  }
  for (const Entry& entry : draft.changed) {
    const lb_backend backend = backend_of(*entry.backend, state.number);
    store_.backends.publish_change<offsetof(lb_backend, service)>(draft.ids[entry.at], backend);
    store_.backends.publish_change<offsetof(lb_backend, port)>(draft.ids[entry.at], backend);
  }
}

void Publisher::write_extent(Extent current, Extent next, const std::vector<std::uint32_t>& ids) {
  if (next == current) {
    return;
  }
  std::uint32_t slot = next.first;
  for (const std::uint32_t id : ids) {
    store_.slots.store(slot++, id);
  }
}

// A program loads the policy, which names the set, and then the set: a set that the old or the new policy
// names is never empty in between, unless it is empty in one of the two.
void Publisher::switch_sets(const ServiceState& state, const ServicePortPlan& plan, const Draft& draft) {
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
  reclaimer_.retire_backend(id);
}

bool Publisher::holds(Extent extent, const std::vector<std::uint32_t>& ids) const {
  if (extent.count != ids.size()) {
    return false;
  }
  return std::ranges::all_of(
      ids, [this, slot = extent.first](std::uint32_t id) mutable { return store_.slots.load(slot++) == id; });
}

std::uint64_t Publisher::slots(const ServicePortPlan& plan) const {
  std::uint64_t slots = 0;
  for (const auto scope : {LB_CLUSTER, LB_LOCAL}) {
    if (plan.policy.selection != LB_CONSISTENT) {
      slots += WeightSlots(plan.backends, scope).all();
    } else if (plan.backends.members(scope).count > 0) {
      slots += consistent_slots_;
    }
  }
  return slots;
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
  auto id = state.ids.begin();
  for (const BackendPlan& backend : plan.backends) {
    const lb_backend found = store_.backends.load(*id++);
    const lb_backend wanted = backend_of(backend, state.number);
    damage.backends += same_endpoint(found, wanted) && same_state(found, wanted) ? 0 : 1;
  }
  damage.slots = damaged_slots(state, LB_CLUSTER) + damaged_slots(state, LB_LOCAL);
  const lb_service row = row_of(plan, state.cluster, state.local);
  damage.services = maps::EqualBytes()(store_.services.load(state.number), row) ? 0 : 1;
  return damage;
}

// Computes a table of consistent selection again only if its sum has changed.
std::size_t Publisher::damaged_slots(const ServiceState& state, lb_scope scope) {
  const Extent extent = scope == LB_LOCAL ? state.local : state.cluster;
  if (state.plan->policy.selection == LB_CONSISTENT &&
      sum_in(extent) == (scope == LB_LOCAL ? state.local_sum : state.cluster_sum)) {
    return 0;
  }
  slots_of(*state.plan, scope, state.ids, consistent_slots_, draft_->cluster_slots);
  return differences(extent, draft_->cluster_slots);
}

std::uint64_t Publisher::sum_in(Extent extent) const {
  std::uint64_t sum = sum_start;
  for (std::uint32_t at = 0; at < extent.count; ++at) {
    sum = add_slot(sum, store_.slots.load(extent.first + at));
  }
  return sum;
}

std::size_t Publisher::differences(Extent extent, const std::vector<std::uint32_t>& ids) const {
  std::size_t count = 0;
  for (std::uint32_t at = 0; at < extent.count; ++at) {
    count += store_.slots.load(extent.first + at) == ids[at] ? 0 : 1;
  }
  return count;
}

}  // namespace lb::agent
