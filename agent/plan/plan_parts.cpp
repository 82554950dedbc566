// SPDX-License-Identifier: Apache-2.0
// What it costs to write a plan over another one, and the way there in parts.
#include "agent/plan/plan_parts.hpp"

#include <algorithm>
#include <array>
#include <boost/unordered/unordered_flat_set.hpp>
#include <iterator>
#include <utility>

#include "agent/plan/address_hash.hpp"
#include "agent/plan/endpoints.hpp"
#include "agent/plan/weight_slots.hpp"

namespace lb::agent {
namespace {

using Plan = std::shared_ptr<const ServicePortPlan>;

constexpr std::size_t backends_per_write = 16;
constexpr std::size_t removals_per_write = 2;  ///< removed backends, each with an entry in quarantine
constexpr std::size_t writes_per_port = 4;     ///< name, number, sets
/// With consistent selection: a write takes about 2 µs, and each backend 1 ns for each slot of a table.
constexpr std::size_t ranks_per_write = 2048;

template <class Entry>
std::size_t differences(const std::vector<Entry>& have, const std::vector<Entry>& want) {
  std::vector<Entry> all;
  std::ranges::set_symmetric_difference(have, want, std::back_inserter(all));
  return all.size();
}

/// Positions in two sorted lists.
struct Reached {
  BackendList::Iterator have;
  BackendList::Iterator want;
  std::size_t work = 0;  ///< in sixteenths of a write
};

/// Walks both lists for up to `writes`, and over at least one backend if `writes` is not 0. Skips shared
/// chunks.
Reached go_through(const BackendList& have, const BackendList& want, std::size_t writes) {
  constexpr std::size_t ended = backends_per_write / removals_per_write;
  const auto goes_first = [](const BackendPlan& left, const BackendPlan& right) {
    return OrderKey{left.address, left.port} < OrderKey{right.address, right.port};
  };
  const auto have_end = have.end();
  const auto want_end = want.end();
  Reached reached{have.begin(), want.begin()};
  auto& [old, next, work] = reached;
  while ((old != have_end || next != want_end) && work / backends_per_write < writes) {
    const bool both = old != have_end && next != want_end;
    if (both && share_chunk(old, next)) {
      old.skip_chunk();
      next.skip_chunk();
    } else if (both && old->address == next->address && old->port == next->port) {
      work += *old++ == *next++ ? 0 : 1;
    } else if (next == want_end || (both && goes_first(*old, *next))) {
      work += ended;
      ++old;
    } else {
      ++work;
      ++next;
    }
  }
  return reached;
}

constexpr std::size_t slots_per_write = 2048;  ///< each slot takes 1 ns

/// How many writes it takes to fill the sets' slots, or their tables of consistent selection.
class TableCost {
 public:
  explicit TableCost(std::uint32_t slots) : slots_(slots) {}

  /// Each table ranks all members of its set.
  [[nodiscard]] std::size_t of(const ServicePortPlan& plan) const {
    const Members cluster = plan.backends.members(LB_CLUSTER);
    const Members local = plan.backends.members(LB_LOCAL);
    if (plan.policy.selection == LB_CONSISTENT) {
      return (std::size_t{cluster.count} + local.count) * slots_ / ranks_per_write;
    }
    return (WeightSlots::most(cluster) + WeightSlots::most(local)) / slots_per_write;
  }
  /// `work`: what go_through() found. All slots are filled again if a backend or the selection changes.
  [[nodiscard]] std::size_t between(const ServicePortPlan& have, const ServicePortPlan& want,
                                    std::size_t work) const {
    return work > 0 || have.policy.selection != want.policy.selection ? of(want) : 0;
  }

 private:
  std::size_t slots_;
};

/// Writes for backends that differ between two plans.
std::size_t backend_writes(const ServicePortPlan& have, const ServicePortPlan& want, std::size_t enough,
                           TableCost table) {
  const auto work = go_through(have.backends, want.backends, enough).work;
  return work / backends_per_write + table.between(have, want, work);
}

/// Without its tables.
std::size_t writes_of(const ServicePortPlan& plan, std::size_t backends_in_one) {
  return writes_per_port + plan.frontends.size() + plan.source_ranges.size() +
         plan.backends.size() / backends_in_one;
}

std::size_t writes_between(const ServicePortPlan& have, const ServicePortPlan& want, std::size_t enough,
                           TableCost table) {
  return differences(have.frontends, want.frontends) + differences(have.source_ranges, want.source_ranges) +
         backend_writes(have, want, enough, table) + 1;
}

/// An entry of lb_frontends, which belongs to one service port at a time.
struct Place {
  k8s::Address address;
  std::uint16_t port = 0;
  lb_protocol protocol = LB_TCP;
  bool operator==(const Place&) const = default;
};
struct PlaceHash {
  using is_avalanching = void;
  std::size_t operator()(const Place& place) const noexcept {
    return lb_mix(AddressHash()(place.address),
                  std::uint64_t{place.port} << 8U | static_cast<std::uint64_t>(place.protocol));
  }
};
using Places = boost::unordered_flat_set<Place, PlaceHash>;

Place place_of(const FrontendPlan& frontend, lb_protocol protocol) {
  return {frontend.address, frontend.port, protocol};
}

template <class Entry>
std::vector<Entry> without(const std::vector<Entry>& entries, const std::vector<Entry>& others) {
  std::vector<Entry> left;
  std::ranges::set_difference(entries, others, std::back_inserter(left));
  return left;
}

/// Moves from one sorted list towards another by up to `writes` entries. Adds entries before it removes
/// others while there is `room`, which it updates; else it removes first. `moves` tells which entries another
/// service port has: one that comes takes no room, and one that goes stays until that port has it.
template <class Entry, class Moves>
std::vector<Entry> nearer(const std::vector<Entry>& have, const std::vector<Entry>& want, std::size_t& writes,
                          std::size_t& room, Moves moves) {
  auto go = without(have, want);
  std::erase_if(go, moves);
  std::vector<Entry> come;
  std::vector<Entry> new_ones;
  std::ranges::partition_copy(without(want, have), std::back_inserter(come), std::back_inserter(new_ones),
                              moves);
  const auto moved = come.size();
  const auto needed = new_ones.size();
  come.insert(come.end(), new_ones.begin(), new_ones.end());
  const auto first = needed > room ? std::min({go.size(), (writes + 1) / 2, needed - room}) : 0;
  const auto coming = std::min({come.size(), writes - first, moved + room + first});
  const auto going = first + std::min(go.size() - first, writes - first - coming);
  writes -= coming + going;
  room = room + going - (coming - std::min(coming, moved));
  come.resize(coming);
  std::ranges::sort(come);
  go.resize(going);
  std::vector<Entry> with;
  std::ranges::set_union(have, come, std::back_inserter(with));
  return without(with, go);
}

template <class Entry>
bool has_all(const std::vector<Entry>& entries, const std::vector<Entry>& wanted) {
  return std::ranges::includes(entries, wanted);
}

std::vector<k8s::Prefix> both(const std::vector<k8s::Prefix>& left, const std::vector<k8s::Prefix>& right) {
  std::vector<k8s::Prefix> all;
  std::ranges::set_union(left, right, std::back_inserter(all));
  return all;
}

/// A service port with nothing written yet.
ServicePortPlan unwritten(const ServicePortPlan& want) {
  ServicePortPlan plan = want;
  plan.frontends.clear();
  plan.source_ranges.clear();
  plan.backends = {};
  return plan;
}

/// Whether a set of `part` is empty although it is empty in neither `have` nor `want`.
bool is_emptier(const BackendList& part, const BackendList& have, const BackendList& want) {
  return std::ranges::any_of(std::array{LB_CLUSTER, LB_LOCAL}, [&](lb_scope scope) {
    return part.members(scope).count == 0 && have.members(scope).count > 0 && want.members(scope).count > 0;
  });
}

/// The wanted backends up to a position in the order, and from there on the present ones.
BackendList nearer_backends(const ServicePortPlan& have, const ServicePortPlan& want, std::size_t& writes,
                            TableCost table) {
  const bool is_consistent = want.policy.selection == LB_CONSISTENT;
  const auto max_writes = is_consistent ? std::numeric_limits<std::size_t>::max() : writes;
  const auto reached = go_through(have.backends, want.backends, max_writes);
  const auto cost = reached.work / backends_per_write + table.between(have, want, reached.work) + 1;
  writes -= std::min(writes, cost);
  if (reached.have == have.backends.end() && reached.want == want.backends.end()) {
    return want.backends;
  }
  auto part = BackendList::joined(want.backends, reached.want, have.backends, reached.have);
  if (is_emptier(part, have.backends, want.backends)) {
    return want.backends;
  }
  return part;
}

Plan shared(ServicePortPlan plan) { return std::make_shared<const ServicePortPlan>(std::move(plan)); }

struct Pair {
  const Plan* have = nullptr;
  const Plan* want = nullptr;
};

/// Pairs plans with the same key.
std::vector<Pair> pairs_of(const ServicePlans& have, const ServicePlans& want) {
  std::vector<Pair> pairs;
  auto old = have.begin();
  auto next = want.begin();
  while (old != have.end() || next != want.end()) {
    const bool goes = next == want.end() || (old != have.end() && (*old)->key < (*next)->key);
    const bool comes = !goes && (old == have.end() || (*next)->key < (*old)->key);
    pairs.push_back({comes ? nullptr : &*old++, goes ? nullptr : &*next++});
  }
  return pairs;
}

/// A service's way from one plan to another, one part at a time.
class Way {
 public:
  /// `writes`: of this part.
  Way(std::vector<Pair> pairs, std::size_t writes, std::size_t max_entries, TableCost table)
      : pairs_(std::move(pairs)), writes_(writes), table_(table) {
    find_moves();
    frontends_ = room(max_entries, &ServicePortPlan::frontends);
    ranges_ = room(max_entries, &ServicePortPlan::source_ranges);
  }

  [[nodiscard]] ServicePlans part();

 private:
  void find_moves();
  /// Whether a frontend of a port of this protocol is one that another port gets.
  [[nodiscard]] auto moving(lb_protocol protocol) const {
    return [this, protocol](const FrontendPlan& each) { return moves_.contains(place_of(each, protocol)); };
  }
  template <class Entry>
  [[nodiscard]] std::size_t room(std::size_t max, std::vector<Entry> ServicePortPlan::* list) const;
  [[nodiscard]] bool is_in_one_step(const ServicePortPlan& have, const ServicePortPlan& want) const;
  [[nodiscard]] Plan nearer_port(const Plan& from, const Plan& want);
  [[nodiscard]] Plan going(const Plan& have);
  [[nodiscard]] std::vector<FrontendPlan> nearer_frontends(const ServicePortPlan& have,
                                                           const std::vector<FrontendPlan>& want);
  [[nodiscard]] std::vector<k8s::Prefix> nearer_ranges(const std::vector<k8s::Prefix>& have,
                                                       const std::vector<k8s::Prefix>& want) {
    return nearer(have, want, writes_, ranges_, [](const auto&) { return false; });
  }

  std::vector<Pair> pairs_;
  std::size_t writes_;
  TableCost table_;
  Places moves_;               ///< that one service port gives up and another one gets
  std::size_t frontends_ = 0;  ///< how many more the service may have before others are removed
  std::size_t ranges_ = 0;
};

void Way::find_moves() {
  static const std::vector<FrontendPlan> none;
  Places leave;
  for (const auto& [old, next] : pairs_) {
    if (old == nullptr || (next != nullptr && *old == *next)) {
      continue;
    }
    for (const auto& each : without((*old)->frontends, next == nullptr ? none : (*next)->frontends)) {
      leave.insert(place_of(each, (*old)->key.protocol));
    }
  }
  for (const auto& [old, next] : pairs_) {
    if (leave.empty() || next == nullptr || (old != nullptr && *old == *next)) {
      continue;
    }
    for (const auto& each : without((*next)->frontends, old == nullptr ? none : (*old)->frontends)) {
      const auto place = place_of(each, (*next)->key.protocol);
      if (leave.contains(place)) {
        moves_.insert(place);
      }
    }
  }
}

/// What is in the tables counts, not what is wanted. A plan of more than `max` entries is written
/// nevertheless.
template <class Entry>
std::size_t Way::room(std::size_t max, std::vector<Entry> ServicePortPlan::* list) const {
  std::size_t present = 0;
  std::size_t wanted = 0;
  for (const auto& [old, next] : pairs_) {
    if (old != nullptr) {
      present += ((**old).*list).size();
    }
    if (next != nullptr) {
      wanted += ((**next).*list).size();
    }
  }
  max = std::max(max, wanted);
  return present < max ? max - present : 0;
}

/// Whether no frontend of the port would be removed before another one of the service has it, and those that
/// come have room once the others are gone.
bool Way::is_in_one_step(const ServicePortPlan& have, const ServicePortPlan& want) const {
  if (!moves_.empty() &&
      std::ranges::any_of(without(have.frontends, want.frontends), moving(want.key.protocol))) {
    return false;
  }
  return want.frontends.size() <= have.frontends.size() + frontends_ &&
         want.source_ranges.size() <= have.source_ranges.size() + ranges_;
}

std::vector<FrontendPlan> Way::nearer_frontends(const ServicePortPlan& have,
                                                const std::vector<FrontendPlan>& want) {
  return nearer(have.frontends, want, writes_, frontends_, moving(have.key.protocol));
}

/// First adds ranges, under the old policy; then changes the backends, under the new policy, then the
/// frontends; removes the old ranges last, unless the new ones have no room before.
Plan Way::nearer_port(const Plan& from, const Plan& want) {
  const ServicePortPlan& have = *from;
  const auto cost = writes_between(have, *want, writes_ + 1, table_);
  if (cost <= writes_ && is_in_one_step(have, *want)) {
    writes_ -= cost;
    frontends_ = frontends_ + have.frontends.size() - want->frontends.size();
    ranges_ = ranges_ + have.source_ranges.size() - want->source_ranges.size();
    return want;
  }
  if (!has_all(have.source_ranges, want->source_ranges)) {
    const auto all = both(have.source_ranges, want->source_ranges);
    const bool fit = all.size() <= have.source_ranges.size() + ranges_;
    ServicePortPlan plan = have;
    plan.source_ranges = nearer_ranges(have.source_ranges, fit ? all : want->source_ranges);
    return shared(std::move(plan));
  }
  ServicePortPlan plan = *want;
  plan.source_ranges = have.source_ranges;
  plan.backends = nearer_backends(have, *want, writes_, table_);
  if (plan.backends.chunks() != want->backends.chunks()) {
    plan.frontends = have.frontends;
    return shared(std::move(plan));
  }
  plan.frontends = nearer_frontends(have, want->frontends);
  if (plan.frontends == want->frontends) {
    plan.source_ranges = nearer_ranges(have.source_ranges, want->source_ranges);
  }
  if (plan == *want) {
    return want;  // an equal copy would be published once more
  }
  return plan == have ? from : shared(std::move(plan));
}

/// Removes up to `writes` worth of the last backends, in whole chunks.
BackendList fewer(const BackendList& backends, std::size_t& writes) {
  auto chunks = backends.chunks();
  while (!chunks.empty() && writes > 0) {
    writes -= std::min(writes, chunks.back()->size() / removals_per_write + 1);
    chunks.pop_back();
  }
  return BackendList(std::move(chunks));
}

/// Removes frontends first, because a packet must not match a frontend without the rest. What no frontend
/// leads to needs no table of consistent selection. Returns nullptr once everything is removed.
Plan Way::going(const Plan& have) {
  const bool waits = !moves_.empty() && std::ranges::any_of(have->frontends, moving(have->key.protocol));
  if (const auto cost = writes_of(*have, removals_per_write); cost <= writes_ && !waits) {
    writes_ -= cost;
    frontends_ += have->frontends.size();
    ranges_ += have->source_ranges.size();
    return nullptr;
  }
  ServicePortPlan plan = *have;
  plan.frontends = nearer_frontends(*have, {});
  if (plan.frontends.empty()) {
    plan.source_ranges = nearer_ranges(plan.source_ranges, {});
  }
  if (plan.frontends.empty() && plan.source_ranges.empty()) {
    plan.policy.selection = LB_RANDOM;
    plan.backends = fewer(plan.backends, writes_);
  }
  return plan == *have ? have : shared(std::move(plan));
}

ServicePlans Way::part() {
  std::vector<Plan> parts(pairs_.size());
  for (std::size_t at = 0; at < pairs_.size(); ++at) {  // removals first, to make room
    const auto& [old, next] = pairs_[at];
    if (old != nullptr && next == nullptr) {
      parts[at] = writes_ == 0 ? *old : going(*old);
    }
  }
  for (std::size_t at = 0; at < pairs_.size(); ++at) {
    const auto& [old, next] = pairs_[at];
    if (next == nullptr) {
      continue;
    }
    if (writes_ == 0 || (old != nullptr && *old == *next)) {
      if (old != nullptr) {
        parts[at] = *old;
      }
    } else if (old != nullptr) {
      parts[at] = nearer_port(*old, *next);
    } else {
      writes_ -= std::min(writes_, writes_per_port);
      parts[at] = nearer_port(shared(unwritten(**next)), *next);
    }
  }
  std::erase(parts, nullptr);
  return parts;
}

}  // namespace

std::size_t writes_between(const ServicePlans& have, const ServicePlans& want, std::size_t enough,
                           std::uint32_t consistent_slots) {
  const TableCost table(consistent_slots);
  std::size_t count = 0;
  for (const auto& [old, next] : pairs_of(have, want)) {
    if (count >= enough) {
      break;
    }
    if (old == nullptr) {
      count += writes_of(**next, backends_per_write) + table.of(**next);
    } else if (next == nullptr) {
      count += writes_of(**old, removals_per_write);
    } else if (*old != *next) {
      count += writes_between(**old, **next, enough - count, table);
    }
  }
  return count;
}

ServicePlans part_towards(const ServicePlans& have, const ServicePlans& want, std::size_t writes,
                          std::uint32_t consistent_slots, std::size_t max_entries) {
  return Way(pairs_of(have, want), writes, max_entries, TableCost(consistent_slots)).part();
}

}  // namespace lb::agent
